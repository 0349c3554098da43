"""`pk debug`."""
