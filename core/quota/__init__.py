"""Client quotas without I/O: their entities, the quota that applies to a client, and the rates that
quotas limit."""
