"""Reading topics from Spark: options, ranges of offsets, and the reader that a task runs."""
