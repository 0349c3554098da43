"""The cluster as a whole: its brokers, features and metrics, and the versions of its APIs."""
