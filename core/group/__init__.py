"""Groups and their offsets: the machine that coordinates one partition of `__consumer_offsets`."""
