"""Information about config keys: documentation, search, and words for completion."""
