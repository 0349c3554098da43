"""`pk quotas`."""
