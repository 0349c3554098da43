"""Produce and Fetch, and what else is asked about the records of partitions."""
