"""Streams of Spark under faults: every input record once in the output, whatever dies
(`scripts/spark-faults`)."""
