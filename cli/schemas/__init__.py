"""The schema registry that a command asks, as the command line, the environment or the profile
names it."""
