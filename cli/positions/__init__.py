"""Positions in a topic: how they are written, and which offsets they mean."""
