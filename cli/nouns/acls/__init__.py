"""`pk acls`."""
