"""Avro schemas: parsed, written canonically, compared, and used to read and write values."""
