"""The schema registry as a server on a topic, and its clients."""
