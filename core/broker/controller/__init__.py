"""The controller and what it keeps, and how a broker reaches it, follows it and lives in its cluster."""
