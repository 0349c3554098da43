"""The schema registry as a server on a topic, and clients of it."""
