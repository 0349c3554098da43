"""JSON Schema documents: parsed, written canonically, compared, and used to check values."""
