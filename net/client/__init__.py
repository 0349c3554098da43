"""The client library: producer, consumers and admin client on trio."""
