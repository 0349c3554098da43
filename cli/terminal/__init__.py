"""What pk does with a terminal: tables, colours, progress, keys and signals."""
