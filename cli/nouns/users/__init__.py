"""`pk users`."""
