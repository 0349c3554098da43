"""Partitions and their replicas: leaders, followers, their progress and log directories."""
