"""`pk groups`."""
