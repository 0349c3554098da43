"""Compaction: selecting a log, the job, and the passes that keep the last record of each key."""
