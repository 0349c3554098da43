"""Files that tasks write directly to their final location: stores, and the writer."""
