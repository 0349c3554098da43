"""`pk doctor`."""
