"""Checks that the libraries for schemas are installed before the first record is processed."""

from importlib.util import find_spec
from typing import Final

from pk.core.schemas.schema import missing_library

_NEEDED: Final = ("fastavro", "jsonschema", "google.protobuf", "proto_schema_parser")


def require_libraries() -> None:
    """Raise MissingLibrary, which names the extra to install, if a library is missing."""
    for name in _NEEDED:
        try:
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        except ModuleNotFoundError as e:  # also if its parent package is missing
            raise missing_library(e) from None
