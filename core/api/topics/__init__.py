"""Topics and their partitions: creation, deletion, description, and leaders."""
