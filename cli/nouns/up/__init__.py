"""`pk up`: its options; what it starts is in `cli/up`."""
