"""One client's connection: frames in, answers out, in order."""
