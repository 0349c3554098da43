"""Requests to the cluster that several commands share. Nothing here is a command."""
