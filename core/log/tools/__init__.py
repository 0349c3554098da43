"""Tools that read, check or convert a log without opening it: inspect, verify, adopt, upgrade."""
