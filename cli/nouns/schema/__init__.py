"""`pk schema`."""
