"""`readStream`: the offsets that a query has read, new offsets, and the sizes of batches."""
