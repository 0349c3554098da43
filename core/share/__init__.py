"""Share groups (KIP-932): the share coordinator's state, a partition leader's deliveries, and share
sessions."""
