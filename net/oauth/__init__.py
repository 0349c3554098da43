"""OAuth: the provider's keys and tokens, over HTTP."""
