"""The runtime of coordinators: a state machine and a log for each internal partition."""
