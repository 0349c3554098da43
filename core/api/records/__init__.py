"""Produce, Fetch, and the other requests about the records of partitions."""
