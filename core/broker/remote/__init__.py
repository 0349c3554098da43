"""Tiered storage: its metadata topic, and the tasks that copy segments and delete them."""
