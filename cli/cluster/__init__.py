"""Questions to the cluster that several commands ask, without a command or an output of its own."""
