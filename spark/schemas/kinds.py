"""The names in files and commands for values that name their schemas.

`json` is JSON without a schema there, so JSON Schema has a name of its own.
"""

from typing import Final

KINDS: Final = {"avro": "avro", "json-schema": "json", "protobuf": "protobuf"}
"""The data source's `value.format` for each kind."""
