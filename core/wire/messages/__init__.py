"""The messages of the protocol: a dataclass for each request and response."""
