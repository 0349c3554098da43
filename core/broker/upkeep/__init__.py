"""Scheduled work: retention, compaction, syncs, checkpoints, and checks and repairs of segments."""
