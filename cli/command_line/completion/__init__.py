"""Completion of a command line, for bash, zsh, fish and the shell."""
