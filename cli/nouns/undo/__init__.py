"""`pk undo` and `pk history`."""
