"""Files that tasks write where they stay: the stores that hold them, and their writer."""
