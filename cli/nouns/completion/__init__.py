"""`pk completion`."""
