"""`pk pipeline`."""
