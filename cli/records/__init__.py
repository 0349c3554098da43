"""The forms in which people read and write records."""
