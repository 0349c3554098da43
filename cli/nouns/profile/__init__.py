"""`pk profile`."""
