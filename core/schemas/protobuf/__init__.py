"""Protobuf schemas: .proto text or descriptors, parsed, rendered, compared, and used to read and
write messages."""
