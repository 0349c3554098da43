"""Columns whose bytes name their schemas: decoding and encoding with the schemas of a registry."""
