"""Schemas of records: Confluent's wire format, subjects, the three schema languages, and what a
registry decides."""
