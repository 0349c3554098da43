"""`pk top`: a live view of the cluster."""
