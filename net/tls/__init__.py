"""TLS: key and trust stores, contexts made of them, and sockets that use these."""
