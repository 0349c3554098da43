"""Schemas of records: Confluent's wire format, subjects, the three schema languages, and the
decisions of a registry."""
