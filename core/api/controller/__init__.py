"""Requests of brokers to the controller, and how a request of a client gets there."""
