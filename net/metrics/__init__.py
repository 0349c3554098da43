"""Serves a node's metrics to Prometheus, and its health checks."""
