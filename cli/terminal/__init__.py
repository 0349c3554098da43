"""Terminal input and output: tables, colours, progress, keys and signals."""
