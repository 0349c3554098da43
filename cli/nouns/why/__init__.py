"""`pk why`."""
