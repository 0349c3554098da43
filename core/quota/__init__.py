"""Client quotas: for whom they are, which one counts, and the rates that they limit. Without
I/O."""
