"""What `pk doctor` and `pk why` know about what goes wrong."""
