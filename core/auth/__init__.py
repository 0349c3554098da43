"""Principals, and the machines that authenticate a connection, without I/O."""
