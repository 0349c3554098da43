"""Authentication, ACLs, SCRAM credentials and delegation tokens."""
