"""`pk isr`."""
