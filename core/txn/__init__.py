"""Transactions: the coordinator's state machine and its records, without I/O."""
