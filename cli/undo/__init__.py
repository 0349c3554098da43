"""The changes that pk made, and how to undo them."""
