"""Record batches: the bytes that producers send, logs keep and consumers read."""
