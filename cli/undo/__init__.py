"""What pk changed, and how to undo it."""
