"""The commands, a package for each noun."""
