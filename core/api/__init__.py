"""The handlers of requests, one API a module, and the registry that finds the handler of a
request."""
