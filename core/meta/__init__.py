"""The cluster's metadata: the controller's state machine, its events, and the immutable image."""
