"""The wire protocol: encoding and decoding of requests and responses, by version."""
