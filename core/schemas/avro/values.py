"""Converts Avro values between the bytes of a record and JSON.

Bytes become text with one character per byte, as in Avro's own JSON; decimals and UUIDs become
text; dates and times become ISO 8601. A union's value has no type; if several branches fit, the
first is used. Avro's own form, {"int": 1}, can be read too.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any, cast

from pk.core.schemas.avro.types import Type, parse
from pk.core.schemas.schema import UnfitValue, missing_library

Dependencies = Iterable[tuple[str, str]]

_PROBLEMS = (ValueError, TypeError, KeyError, IndexError, EOFError, AttributeError, OverflowError)


def _prepared(text: str, dependencies: Dependencies) -> Any:
    try:
        from fastavro.schema import parse_schema
    except ImportError as e:
        raise missing_library(e) from None
    known: dict[str, Any] = {}
    for _, each in dependencies:
        parse_schema(json.loads(each), named_schemas=known)
    return parse_schema(json.loads(text), named_schemas=known)


def reader(
    text: str,
    dependencies: Dependencies = (),
    wanted: tuple[str, Dependencies] | None = None,
    *,
    named: bool = False,
) -> Callable[[bytes], Any]:
    """Return a function that reads payloads of a schema, as a reader with the schema `wanted`. It
    raises UnfitValue.

    With `named`, a value of a union of several named types becomes a pair of its type's name and
    itself.
    """
    import fastavro
    from fastavro.read import SchemaResolutionError

    schemaless_reader = cast(Any, fastavro).schemaless_reader
    schema = _prepared(text, tuple(dependencies))
    target = _prepared(wanted[0], tuple(wanted[1])) if wanted is not None else None
    names = {"return_named_type": named, "return_named_type_override": named}

    def read(payload: bytes) -> Any:
        stream = io.BytesIO(payload)
        try:
            found: Any = schemaless_reader(stream, schema, target, **names)
        except SchemaResolutionError as e:
            raise UnfitValue(f"the schema does not read what another wrote: {e}") from None
        except _PROBLEMS as e:
            raise UnfitValue(f"not Avro of its schema: {e or type(e).__name__}") from None
        if stream.tell() != len(payload):
            raise UnfitValue(
                f"{len(payload) - stream.tell()} bytes are left over after the Avro value"
            )
        return found

    return read


def to_json(value: Any) -> Any:
    """Convert a value to JSON types."""
    match value:
        case dict():
            return {key: to_json(each) for key, each in cast("dict[str, Any]", value).items()}
        case list():
            return [to_json(each) for each in cast("list[Any]", value)]
        case bytes():
            return value.decode("latin-1")
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case _:
            return value


def writer(text: str, dependencies: Dependencies = ()) -> Callable[[Any], bytes]:
    """Return a function that writes JSON values in a schema. It raises UnfitValue."""
    given = tuple(dependencies)
    kind, _ = parse(text, given)
    write = plain_writer(text, given)
    return lambda value: write(_from_json(kind, value, "value"))


def plain_writer(text: str, dependencies: Dependencies = ()) -> Callable[[Any], bytes]:
    """Return a function that writes Python values in a schema: bytes, decimals, dates and times of
    those types, and pairs of name and value for a union of named types. It raises UnfitValue."""
    import fastavro

    schemaless_writer = cast(Any, fastavro).schemaless_writer
    schema = _prepared(text, tuple(dependencies))

    def write(value: Any) -> bytes:
        out = io.BytesIO()
        try:
            schemaless_writer(out, schema, value)
        except _PROBLEMS as e:
            raise UnfitValue(f"the value does not fit its schema: {e}") from None
        return out.getvalue()

    return write


def _from_json(kind: Type, value: Any, path: str) -> Any:
    """Convert a JSON value to the form that fastavro accepts. Raises UnfitValue."""
    match kind.kind:
        case "union":
            return _of_union(kind, value, path)
        case "record" | "error":
            return _record(kind, value, path)
        case "array":
            assert kind.items is not None
            if not isinstance(value, list):
                raise _unfit(path, "a list", value)
            items = kind.items
            listed = cast("list[Any]", value)
            return [_from_json(items, each, f"{path}[{i}]") for i, each in enumerate(listed)]
        case "map":
            assert kind.items is not None
            if not isinstance(value, dict):
                raise _unfit(path, "an object", value)
            items = kind.items
            found = cast("dict[str, Any]", value)
            return {key: _from_json(items, each, f"{path}.{key}") for key, each in found.items()}
        case "enum":
            if value not in kind.symbols:
                raise _unfit(path, f"one of {', '.join(kind.symbols)}", value)
            return value
        case _:
            return _primitive(kind, value, path)


def _record(kind: Type, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unfit(path, "an object", value)
    given = cast("dict[str, Any]", value)
    unknown = given.keys() - {each.name for each in kind.fields}
    if unknown:
        raise UnfitValue(f"{path}: {kind.name} has no field {', '.join(sorted(unknown))}")
    found: dict[str, Any] = {}
    for each in kind.fields:
        if each.name in given:
            found[each.name] = _from_json(each.type, given[each.name], f"{path}.{each.name}")
        elif not each.has_default:
            raise UnfitValue(f"{path}: the field {each.name} is missing")
        else:
            default = each.default
            first = each.type.branches[0] if each.type.kind == "union" else each.type
            found[each.name] = _from_json(first, default, f"{path}.{each.name}")
    return found


def _of_union(kind: Type, value: Any, path: str) -> Any:
    if isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1:
        [(name, inner)] = cast("dict[str, Any]", value).items()
        for branch in kind.branches:
            if name in (branch.branch_name, branch.short_name) and branch.kind not in ("map",):
                try:
                    return branch.branch_name, _from_json(branch, inner, path)
                except UnfitValue:
                    break
    for branch in kind.branches:
        try:
            found = _from_json(branch, value, path)
        except UnfitValue:
            continue
        # fastavro accepts a pair of name and value for a named type, and recognizes any other type
        # by the value.
        return (branch.name, found) if branch.name else found
    names = ", ".join(branch.branch_name for branch in kind.branches)
    raise _unfit(path, f"one of {names}", value)


def _primitive(kind: Type, value: Any, path: str) -> Any:
    logical = kind.properties.get("logicalType")
    if logical is not None and isinstance(value, str):
        try:
            found = _logical(str(logical), value)
        except (ValueError, decimal.InvalidOperation):
            raise _unfit(path, f"a {logical}", value) from None
        if found is not None:
            return found
    match kind.kind, value:
        case "null", None:
            return None
        case "boolean", bool():
            return value
        case (("int" | "long"), int()) if not isinstance(value, bool):
            return value
        case (("float" | "double"), (int() | float())) if not isinstance(value, bool):
            return value
        case "string", str():
            return value
        case (("bytes" | "fixed"), str()):
            try:
                return value.encode("latin-1")
            except UnicodeEncodeError:
                raise _unfit(path, "text with one character a byte", value) from None
        case _:
            raise _unfit(path, f"a value of type {kind.branch_name}", value)


def _logical(name: str, value: str) -> Any:
    if name.startswith(("timestamp-", "local-timestamp-")):
        return datetime.datetime.fromisoformat(value)
    match name:
        case "date":
            return datetime.date.fromisoformat(value)
        case "time-millis" | "time-micros":
            return datetime.time.fromisoformat(value)
        case "decimal":
            return decimal.Decimal(value)
        case "uuid":
            return str(uuid.UUID(value))
        case _:
            return None


def _unfit(path: str, wanted: str, value: Any) -> UnfitValue:
    return UnfitValue(f"{path} must be {wanted}, not {json.dumps(value, default=str)[:100]}")
