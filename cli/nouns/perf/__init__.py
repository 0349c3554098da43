"""`pk perf`."""
