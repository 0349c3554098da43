"""`readStream`: the offsets a query has read, new ones, and how many a batch takes."""
