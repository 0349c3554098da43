"""Replicas: reassignment, elections, and the log directories they are in."""
