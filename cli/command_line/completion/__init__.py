"""What may come next on a command line, for bash, zsh, fish and the shell."""
