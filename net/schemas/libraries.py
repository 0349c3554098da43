"""Whether what the languages of schemas need is installed: asked before the first record, not at
it."""

from importlib.util import find_spec
from typing import Final

from pk.core.schemas.schema import missing_library

_NEEDED: Final = ("fastavro", "jsonschema", "google.protobuf", "proto_schema_parser")


def require_libraries() -> None:
    """Raises MissingLibrary, which names the extra to install."""
    for name in _NEEDED:
        try:
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        except ModuleNotFoundError as e:  # also where the package is that a module would be in
            raise missing_library(e) from None
