"""What request handlers share: client identity, record checks, conversion for old clients."""
