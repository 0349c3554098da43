"""Partitions and their replicas: what leads, what follows, how far each has come, and where its log lies."""
