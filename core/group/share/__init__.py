"""Share groups (KIP-932) in their coordinator: members, assignments, and the share partitions."""
