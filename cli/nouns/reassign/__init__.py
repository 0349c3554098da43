"""`pk reassign`."""
