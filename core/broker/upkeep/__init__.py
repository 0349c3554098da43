"""What a broker does by the clock: retention, compaction, syncs and checkpoints."""
