"""The names of formats with schemas in files and commands.

There `json` is JSON without a schema, so JSON Schema has another name.
"""

from typing import Final

KINDS: Final = {"avro": "avro", "json-schema": "json", "protobuf": "protobuf"}
"""Kind → the data source's `value.format`."""
