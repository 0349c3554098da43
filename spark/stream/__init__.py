"""`readStream`: what a query has read, what is new, and how much of it a batch takes."""
