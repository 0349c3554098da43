"""`pk shell`: the command tree, interactively."""
