"""The broker: the parts between the sockets and the logs, and how they are assembled."""
