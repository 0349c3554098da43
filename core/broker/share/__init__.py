"""Share groups on the leaders of partitions (KIP-932): records in flight, and their state."""
