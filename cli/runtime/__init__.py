"""What a running command needs: its context, connection, settings, guards, failures and exit
codes."""
