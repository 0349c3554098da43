"""`pk topics`."""
