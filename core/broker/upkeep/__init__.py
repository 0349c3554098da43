"""Periodic work of a broker: retention, compaction, syncs and checkpoints."""
