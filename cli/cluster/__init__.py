"""Questions to the cluster that several commands ask. No command, and no output of its own."""
