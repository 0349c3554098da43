"""Faults that a test asks a broker for; only a broker with `pk.faults.enable` has them."""
