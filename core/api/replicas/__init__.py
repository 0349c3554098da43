"""Replicas: reassignment, elections, and their log directories."""
