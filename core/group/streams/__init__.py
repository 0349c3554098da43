"""Streams groups (KIP-1071) in their coordinator: topology, internal topics, tasks, members."""
