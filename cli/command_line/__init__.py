"""The command line: its options, help, manual and completion."""
