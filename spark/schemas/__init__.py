"""Columns whose bytes name their schema: decoded and encoded with the schemas of a registry."""
