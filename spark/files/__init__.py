"""Files that tasks write directly to their final location: the stores, and the writer."""
