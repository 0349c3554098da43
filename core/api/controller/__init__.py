"""Requests of brokers to the controller, and forwarding of clients' requests."""
