"""The output of every command: formats, columns, schemas and conditions."""
