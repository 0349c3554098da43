"""Brokers on this machine: `pk up` and its processes."""
