"""Streams groups (KIP-1071) at their coordinator: topology, internal topics, tasks, members."""
