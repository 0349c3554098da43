"""`pk users tokens`: delegation tokens."""
