"""`pk partitions`."""
