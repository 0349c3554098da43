"""The three schema languages behind one interface: parse, write canonically, compare.

The libraries of a language are imported when a schema in it is first parsed.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import Struct

from pk.core.schemas.compatibility import Difference
from pk.core.schemas.schema import (
    AVRO,
    JSON,
    PROTOBUF,
    SCHEMA_TYPES,
    MissingLibrary,
    Resolved,
    SchemaError,
    canonical_json,
)


class Parsed(Struct, frozen=True):
    """A parsed and checked schema."""

    type: str
    model: Any
    """The representation that the language's own modules use."""

    text: str
    """The canonical text."""

    name: str | None
    """The full name of the record or first message, for subjects named after it."""


def parse(given: Resolved, *, normalize: bool = False) -> Parsed:
    """Parse and check a schema. Raises SchemaError."""
    kind = given.schema.type
    reader = _PARSERS.get(kind)
    if reader is None:
        raise SchemaError(
            f"Invalid schema type {kind}: it must be one of {', '.join(SCHEMA_TYPES)}"
        )
    try:
        return reader(given, normalize)
    except (SchemaError, MissingLibrary):
        raise
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None


def differences(reader: Parsed, writer: Parsed) -> list[Difference]:
    """Compare two schemas. Returns the reasons why data written with one cannot be read with the
    other, if any."""
    if reader.type != writer.type:
        words = "The schema type of the {new} schema is not that of the {old} schema"
        return [Difference("TYPE_CHANGED", "/", words, f"{reader.type} and {writer.type}")]
    if reader.type == AVRO:
        from pk.core.schemas.avro.compatibility import differences as compare
    elif reader.type == JSON:
        from pk.core.schemas.json_schema.compatibility import differences as compare
    else:
        from pk.core.schemas.protobuf.compatibility import differences as compare
    return compare(reader.model, writer.model)


def _parse_avro(given: Resolved, normalize: bool) -> Parsed:
    from pk.core.schemas.avro.text import canonical
    from pk.core.schemas.avro.types import parse as parse_avro

    kind, borrowed = parse_avro(given.text, given.dependencies)
    return Parsed(AVRO, kind, canonical(kind, borrowed, normalize=normalize), kind.name or None)


def _parse_json(given: Resolved, normalize: bool) -> Parsed:
    from pk.core.schemas.json_schema.documents import check
    from pk.core.schemas.json_schema.nodes import Documents, load

    document = load(given.text)
    check(document)
    references = [(name, load(text)) for name, text in given.dependencies]
    node = Documents(document, references).node()
    text = (
        json.dumps(document, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
        if normalize
        else canonical_json(document)
    )
    title = cast("dict[str, Any]", document).get("title") if isinstance(document, dict) else None
    return Parsed(JSON, node, text, title if isinstance(title, str) else None)


def _parse_protobuf(given: Resolved, normalize: bool) -> Parsed:
    from pk.core.schemas.protobuf.descriptors import load
    from pk.core.schemas.protobuf.text import canonical

    file = load(given.text, given.dependencies)
    first = file.proto.message_type[0].name if file.proto.message_type else None
    package = f"{file.proto.package}." if file.proto.package else ""
    return Parsed(PROTOBUF, file, canonical(file.proto), f"{package}{first}" if first else None)


_PARSERS: Final[dict[str, Callable[[Resolved, bool], Parsed]]] = {
    AVRO: _parse_avro,
    JSON: _parse_json,
    PROTOBUF: _parse_protobuf,
}


class ParsedCache:
    """A cache of the schemas that were parsed last, so that a check against ten versions does not
    parse all of them again."""

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._kept: OrderedDict[Resolved, Parsed] = OrderedDict()

    def parse(self, given: Resolved) -> Parsed:
        """Like `parse`, but cached. Raises SchemaError."""
        known = self._kept.pop(given, None)
        found = known if known is not None else parse(given)
        self._kept[given] = found
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return found
