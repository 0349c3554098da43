"""Groups and their offsets: the state machine of one partition of `__consumer_offsets`."""
