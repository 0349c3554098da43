"""Serves a node's metrics to Prometheus, and says whether it works."""
