"""Brokers on this machine: `pk up` and the processes that it starts."""
