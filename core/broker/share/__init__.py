"""Share groups on the leaders of partitions (KIP-932): what is in flight, and its state."""
