"""Metrics that clients push (KIP-714): which ones are asked for, and what came."""
