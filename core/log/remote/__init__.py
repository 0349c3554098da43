"""Tiered storage (KIP-405): segments in an object store, and the records that list them."""
