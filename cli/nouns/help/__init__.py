"""`pk help`."""
