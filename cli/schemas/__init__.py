"""The schema registry of a command, as named by the command line, the environment or the
profile."""
