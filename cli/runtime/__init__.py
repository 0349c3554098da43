"""Support for a running command: its context, connection, settings, guards, failures and exit
codes."""
