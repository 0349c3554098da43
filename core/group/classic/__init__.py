"""Groups of the classic protocol: members join and sync together in each generation."""
