"""A schema registry without I/O: the records of the topic `_schemas`, the state they make, and
every decision."""
