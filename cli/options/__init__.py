"""Declared options and arguments, how their values are read, and the options that many commands
share."""
