"""`pk spark`."""
