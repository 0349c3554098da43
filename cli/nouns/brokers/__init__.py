"""`pk brokers`."""
