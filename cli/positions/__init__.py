"""Positions in a topic: how they are typed, and which offsets they mean."""
