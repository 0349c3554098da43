"""The broker: what runs between the sockets and the logs."""
