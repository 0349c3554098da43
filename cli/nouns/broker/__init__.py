"""`pk broker`."""
