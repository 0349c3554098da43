"""Shared by request handlers: the client, authorization, quotas, conversion for old clients."""
