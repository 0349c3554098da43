"""Brokers on this machine: `pk up` and the processes it starts."""
