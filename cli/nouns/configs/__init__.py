"""`pk configs`."""
