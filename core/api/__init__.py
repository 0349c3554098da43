"""The handlers of requests, one module for each API, and the registry that finds the handler of a
request."""
