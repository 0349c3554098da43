"""Declared options and arguments, the parsers of their values, and the options that many commands
share."""
