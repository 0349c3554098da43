"""`pk cluster`."""
