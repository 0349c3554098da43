"""Requests to the cluster that several commands share."""
