"""`pk tokens`: delegation tokens."""
