"""The runtime of coordinators: a state machine for each partition of an internal topic, and its log."""
