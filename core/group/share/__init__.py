"""Share groups (KIP-932) at their coordinator: members, assignments, and share partitions."""
