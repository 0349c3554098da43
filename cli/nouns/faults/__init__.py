"""`pk test faults`: faults that brokers of pk make for tests."""
