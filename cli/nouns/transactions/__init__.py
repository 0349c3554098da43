"""`pk transactions`."""
