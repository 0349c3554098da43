"""Records as a person writes and reads them."""
