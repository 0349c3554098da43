"""`pk top`: the cluster, live."""
