"""Partition assignment in a classic group: the assignors that the group leader runs, and the bytes
of assignments."""
