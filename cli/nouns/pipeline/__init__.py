"""`pk spark pipeline`."""
