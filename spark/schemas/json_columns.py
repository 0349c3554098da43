"""Converts between JSON Schema and Spark's columns.

An object with properties is a struct, an object with only `additionalProperties` is a map; integers
are bigint, and numbers are double. A value without a single type (`anyOf` of several, or an object
or array whose parts are not described) is kept as JSON text. Dates and times are text too, as in
JSON.

A value must have the types of its columns. Reading does not check the schema's other rules; writing
checks them all.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pyspark.sql import types as t

from pk.core.schemas.json_schema.documents import checker
from pk.core.schemas.json_schema.nodes import Documents, Node, load
from pk.core.schemas.schema import Resolved, SchemaError, UnfitValue
from pk.spark.schemas.shapes import Convert, Shape, many
from pk.spark.text.json_reader import Number, Unfit, json_text, load_value

_LONGS: Final = range(-(1 << 63), 1 << 63)
_LONG_DIGITS: Final = 19


def shape(schema: Resolved) -> Shape:
    """The column for a schema. Raises SchemaError for a type that contains itself."""
    references = [(name, load(text)) for name, text in schema.dependencies]
    return _shape(Documents(load(schema.text), references).node(), ())


def read_with(wanted: Resolved) -> Callable[[bytes], Any]:
    """Return a function that reads payloads with a schema: properties that the schema lacks are
    dropped. The function raises UnfitValue. Raises SchemaError."""
    column = shape(wanted)

    def read(payload: bytes) -> Any:
        try:
            value = load_value(payload)
        except Unfit as e:
            raise UnfitValue(str(e)) from None
        return column.converted(value)

    return read


def _whole_text(value: Any) -> str:
    text = json_text(value)
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise UnfitValue(f"the text is not Unicode: {e.reason}") from None
    return text


_ANYTHING: Final = Shape(t.StringType(), _whole_text)
"""A value without a single type."""


def _shape(node: Node, within: tuple[Node, ...]) -> Shape:
    if any(each is node for each in within):
        raise SchemaError("a part of the schema contains itself: Spark has no recursive types")
    inner = (*within, node)
    match node.kind:
        case "string":
            return Shape(t.StringType(), _must_be(str, "text"))
        case "boolean":
            return Shape(t.BooleanType(), _must_be(bool, "true or false"))
        case "number":
            return _integer() if node.integer else Shape(t.DoubleType(), _number)
        case "null":
            return Shape(t.StringType(), _must_be(type(None), "null"))
        case "object":
            return _object(node, inner)
        case "array":
            return _array(node, inner)
        case "enum":
            return _of_values(node)
        case "combined":
            return _combined(node, inner)
        case _:
            return _ANYTHING


def _must_be(kind: type, what: str) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind) or type(value) is Number:
            raise UnfitValue(f"{_short(value)} is not {what}")
        return value

    return convert


def _short(value: Any) -> str:
    return json_text(value)[:100]


def _integer() -> Shape:
    def convert(value: Any) -> int:
        if type(value) is Number:
            exact = decimal.Decimal(value)
            small = exact.adjusted() < _LONG_DIGITS  # 1e999999999 has that many digits
            found = int(exact) if small and exact == exact.to_integral_value() else None
        else:
            found = value if type(value) is int else None
        if found is None or found not in _LONGS:
            raise UnfitValue(f"{_short(value)} is not a whole number of 64 bits")
        return found

    return Shape(t.LongType(), convert)


def _number(value: Any) -> float:
    if type(value) not in (int, Number):
        raise UnfitValue(f"{_short(value)} is not a number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isinf(found):
        raise UnfitValue(f"{_short(value)} is too large a number")
    return found


def _object(node: Node, within: tuple[Node, ...]) -> Shape:
    if not node.properties:
        if node.additional is None or node.patterns:
            return _ANYTHING
        inner = _shape(node.additional, within)
        return Shape(t.MapType(t.StringType(), inner.type), _map_of(inner))
    return _struct({name: _shape(each, within) for name, each in node.properties.items()})


def _map_of(inner: Shape) -> Convert:
    def convert(value: Any) -> list[tuple[str, Any]]:
        found = _dict(value)
        return [(name, inner.converted(each)) for name, each in found.items()]

    return convert


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnfitValue(f"{_short(value)} is not an object")
    return cast("dict[str, Any]", value)


def _struct(shapes: Mapping[str, Shape]) -> Shape:
    fields = [t.StructField(name, each.type) for name, each in shapes.items()]

    def convert(value: Any) -> dict[str, Any]:
        given = _dict(value)
        found: dict[str, Any] = {}
        for name, each in shapes.items():
            inner = given.get(name)
            if inner is not None:
                try:
                    found[name] = each.converted(inner)
                except UnfitValue as e:
                    raise UnfitValue(f"{name}: {e}") from None
        return found

    return Shape(t.StructType(fields), convert)


def _array(node: Node, within: tuple[Node, ...]) -> Shape:
    if node.all_items is None:
        return _ANYTHING
    inner = _shape(node.all_items, within)
    convert_all = many(inner.convert)

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise UnfitValue(f"{_short(value)} is not an array")
        return value if convert_all is None else convert_all(value)

    return Shape(t.ArrayType(inner.type), convert)


def _of_values(node: Node) -> Shape:
    words = node.keywords
    listed = cast("list[Any]", words["enum"] if "enum" in words else [words.get("const")])
    kinds = {type(each) for each in listed if each is not None}
    if kinds == {str}:
        return Shape(t.StringType(), _must_be(str, "text"))
    if kinds == {bool}:
        return Shape(t.BooleanType(), _must_be(bool, "true or false"))
    return _integer() if kinds == {int} else _ANYTHING


def _combined(node: Node, within: tuple[Node, ...]) -> Shape:
    parts = [each for each in node.parts if each.kind not in ("null", "not", "if", "true")]
    if node.criterion == "allOf":
        # A part without a type only restricts another part.
        shapes = [_shape(each, within) for each in parts]
        typed_shapes = [each for each in shapes if each is not _ANYTHING]
        structs = [each for each in typed_shapes if isinstance(each.type, t.StructType)]
        if len(structs) > 1 and len(structs) == len(typed_shapes):
            return _struct(_merged(structs))
        return typed_shapes[0] if typed_shapes else _ANYTHING
    if len(parts) != 1:
        shapes = [_shape(each, within) for each in parts]
        same = shapes and all(each.type == shapes[0].type for each in shapes)
        plain = same and isinstance(shapes[0].type, t.LongType | t.DoubleType | t.BooleanType)
        return shapes[0] if plain else _ANYTHING
    return _shape(parts[0], within)


def _merged(structs: list[Shape]) -> dict[str, Shape]:
    """The fields of all structs, each with the conversion of its own struct."""
    found: dict[str, Shape] = {}
    for each in structs:
        kind = cast("t.StructType", each.type)
        for field in kind.fields:
            found.setdefault(field.name, Shape(field.dataType, _field_of(each, field.name)))
    return found


def _field_of(struct: Shape, name: str) -> Convert:
    return lambda value: struct.converted({name: value})[name]


# writing


def writer(schema: Resolved, column: t.DataType) -> Callable[[Any], bytes]:
    """Return a function that checks a column's values against the schema and encodes them; it
    raises UnfitValue. Fields that are null are omitted. Raises SchemaError."""
    check = checker(schema.text, schema.dependencies)
    # The check needs numbers; the encoded text keeps all digits of a decimal.
    checked, written = _plain(column, _rounded), _plain(column, _digits)

    def write(value: Any) -> bytes:
        check(checked(value))
        return _whole_text(written(value)).encode()

    return write


def text_writer(schema: Resolved) -> Callable[[str], bytes]:
    """Return a function that checks JSON texts against the schema and encodes them unchanged; it
    raises UnfitValue. Raises SchemaError."""
    check = checker(schema.text, schema.dependencies)

    def write(text: str) -> bytes:
        data = text.encode()
        try:
            load_value(data)
        except Unfit as e:
            raise UnfitValue(str(e)) from None
        check(json.loads(text))
        return data

    return write


def _plain(column: t.DataType, decimals: Convert) -> Convert:
    """The conversion of a column's Arrow values to JSON values."""
    match column:
        case t.StructType():
            fields = {each.name: _plain(each.dataType, decimals) for each in column.fields}
            return lambda row: {
                name: convert(row[name])
                for name, convert in fields.items()
                if row[name] is not None
            }
        case t.ArrayType():
            inner = _plain(column.elementType, decimals)
            return lambda values: [None if each is None else inner(each) for each in values]
        case t.MapType() if isinstance(column.keyType, t.StringType):
            inner = _plain(column.valueType, decimals)
            return lambda pairs: {k: None if v is None else inner(v) for k, v in pairs}
        case t.DecimalType():
            return decimals
        case t.DateType() | t.TimestampType() | t.TimestampNTZType():
            return _iso
        case t.BooleanType() | t.StringType() | t.NullType() | t.IntegralType():
            return lambda value: value
        case t.FloatType() | t.DoubleType():
            return _finite
        case _:
            raise SchemaError(f"JSON has no type for {column.simpleString()}")


def _rounded(value: decimal.Decimal) -> int | float:
    whole = value.to_integral_value()
    return int(whole) if whole == value else float(value)


def _digits(value: decimal.Decimal) -> int | Number:
    whole = value.to_integral_value()
    return int(whole) if whole == value else Number(format(value, "f"))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise UnfitValue(f"JSON has no number {value}")
    return value


def _iso(value: datetime.date) -> str:
    return value.isoformat()


_DERIVED: Final[dict[type[t.DataType], dict[str, Any]]] = {
    t.BooleanType: {"type": "boolean"},
    t.ByteType: {"type": "integer"},
    t.ShortType: {"type": "integer"},
    t.IntegerType: {"type": "integer"},
    t.LongType: {"type": "integer"},
    t.FloatType: {"type": "number"},
    t.DoubleType: {"type": "number"},
    t.DecimalType: {"type": "number"},
    t.StringType: {"type": "string"},
    t.DateType: {"type": "string", "format": "date"},
    t.TimestampType: {"type": "string", "format": "date-time"},
    t.TimestampNTZType: {"type": "string"},
}


def schema_of(column: t.DataType, name: str) -> str:
    """The text of a schema for a column; each field may be absent. Raises SchemaError."""
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": name}
    return json.dumps(head | _derived(column))


def _derived(column: t.DataType) -> dict[str, Any]:
    match column:
        case t.StructType():
            # No additional properties are allowed, so that a later version may add a field:
            # otherwise existing records could have any value under its name.
            properties = {each.name: _derived(each.dataType) for each in column.fields}
            return {"type": "object", "properties": properties, "additionalProperties": False}
        case t.ArrayType():
            return {"type": "array", "items": _or_null(column.elementType)}
        case t.MapType() if isinstance(column.keyType, t.StringType):
            return {"type": "object", "additionalProperties": _or_null(column.valueType)}
        case _:
            found = _DERIVED.get(type(column))
            if found is None:
                raise SchemaError(f"JSON Schema has no type for {column.simpleString()}")
            return found


def _or_null(column: t.DataType) -> dict[str, Any]:
    return {"anyOf": [{"type": "null"}, _derived(column)]}
