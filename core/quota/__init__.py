"""Client quotas without I/O: for whom they are, which one counts, and the rates they limit."""
