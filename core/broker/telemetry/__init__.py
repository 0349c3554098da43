"""Metrics that clients push (KIP-714): subscriptions, and the pushed values."""
