"""What reads, checks or converts a log without opening it: inspect, verify, adopt, upgrade."""
