"""Positions in a topic: their syntax, and the offsets that they mean."""
