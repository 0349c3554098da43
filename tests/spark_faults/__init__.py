"""Streams of Spark under faults: every input record is in the output once, whichever process dies
(`scripts/spark-faults`)."""
