"""`pk schema-registry`."""
