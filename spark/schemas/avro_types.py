"""Converts Avro's types to Spark's, for a schema that records are read with."""

from __future__ import annotations

from typing import Final

from pk.core.schemas.avro.types import Type, parse
from pk.core.schemas.schema import Resolved, SchemaError

_PRIMITIVES: Final = {
    "null": "void",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "string",
    "fixed": "string",
    "enum": "string",
}


def ddl_of(schema: Resolved) -> str:
    """Spark's DDL for the values of an Avro schema in their JSON form. Raises SchemaError for a
    type that contains itself."""
    kind, _ = parse(schema.text, schema.dependencies)
    return _ddl(kind, ())


def _ddl(kind: Type, within: tuple[str, ...]) -> str:
    logical = kind.properties.get("logicalType")
    match kind.kind:
        case "record" | "error":
            if kind.name in within:
                raise SchemaError(
                    f"{kind.name} contains itself: Spark has no recursive types; read it as JSON"
                )
            inner = (*within, kind.name)
            fields = (f"`{each.name}`: {_ddl(each.type, inner)}" for each in kind.fields)
            return f"struct<{', '.join(fields)}>"
        case "array":
            assert kind.items is not None
            return f"array<{_ddl(kind.items, within)}>"
        case "map":
            assert kind.items is not None
            return f"map<string, {_ddl(kind.items, within)}>"
        case "union":
            branches = [each for each in kind.branches if each.kind != "null"]
            return _ddl(branches[0], within) if len(branches) == 1 else "string"
        case "bytes" | "fixed" if logical == "decimal":
            return f"decimal({kind.properties['precision']}, {kind.properties.get('scale', 0)})"
        case "int" | "long" if logical is not None:
            if str(logical).startswith("timestamp"):
                return "timestamp"
            return (
                "date"
                if logical == "date"
                else "string"
                if str(logical) == "time-millis"
                else "bigint"
            )
        case _:
            return _PRIMITIVES[kind.kind]
