"""`pk node`."""
