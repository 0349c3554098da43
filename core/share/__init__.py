"""Share groups (KIP-932): what the share coordinator keeps, what a partition's leader delivers, and
share sessions."""
