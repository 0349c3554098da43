"""Groups of the classic, consumer and streams protocols, and their committed offsets."""
