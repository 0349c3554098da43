"""Groups of the classic protocol: members join and sync together, generation by generation."""
