"""`pk shell`: its options; the shell itself is in `cli/shell`."""
