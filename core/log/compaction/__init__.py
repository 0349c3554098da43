"""Compaction: whether a log is worth it, the job, and the passes that keep the last record of each key."""
