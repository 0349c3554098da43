"""Compares pk and Apache Kafka on one machine, in one run: `scripts/bench`."""
