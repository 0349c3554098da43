"""TLS: key and trust stores, the contexts created from them, and TLS sockets."""
