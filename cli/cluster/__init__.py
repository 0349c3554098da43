"""Questions to the cluster that several commands ask. Nothing here writes to the terminal as a command."""
