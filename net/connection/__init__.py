"""One client's connection: receives requests and sends the answers in order."""
