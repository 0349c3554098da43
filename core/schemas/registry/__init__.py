"""A schema registry without I/O: the records of the topic `_schemas`, the state built from them,
and every decision."""
