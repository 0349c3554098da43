"""What pk changed, and how to change it back."""
