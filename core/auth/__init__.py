"""Principals, and the state machines that authenticate a connection, without I/O."""
