"""Configurations and client quotas."""
