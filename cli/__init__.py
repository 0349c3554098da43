"""The command line: `pk` and all of its commands."""
