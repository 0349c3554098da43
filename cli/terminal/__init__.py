"""Terminal input and output: tables, colors, progress, keys and signals."""
