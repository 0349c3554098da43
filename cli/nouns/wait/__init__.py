"""`pk wait`."""
