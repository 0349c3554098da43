"""`pk producers`."""
