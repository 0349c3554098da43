"""Topics and their partitions: create, delete, describe, and find their leaders."""
