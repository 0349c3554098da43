"""The messages of the protocol: a struct for each request and response."""
