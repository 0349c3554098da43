"""Converts between Avro and Spark's columns. The types are those of Spark's own `from_avro` and
`to_avro`.

A union of several types is a struct with a field for each (`member0`, `member1`, …), of which one
is not null; int with long is bigint, float with double is double. Times of day are numbers, as they
are stored. Timestamps in nanoseconds are numbers too, since Spark's have only microseconds.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
import uuid
from collections.abc import Callable
from typing import Any, Final, cast

from pyspark.sql import types as t

from pk.core.schemas.avro.types import Type, parse
from pk.core.schemas.avro.values import plain_writer, reader
from pk.core.schemas.schema import Resolved, SchemaError, UnfitValue
from pk.spark.schemas.shapes import Convert, Shape, many, mapped, recorded

DIGITS_MAX: Final = 38
"""The largest number of digits of Spark's decimals."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIMITIVES: Final[dict[str, t.DataType]] = {
    "null": t.NullType(),
    "boolean": t.BooleanType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "bytes": t.BinaryType(),
    "fixed": t.BinaryType(),
    "enum": t.StringType(),
}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TIMESTAMPS: Final = ("timestamp-millis", "timestamp-micros")
_LOCAL: Final = ("local-timestamp-millis", "local-timestamp-micros")


def shape(schema: Resolved) -> Shape:
    """The column for a schema. Raises SchemaError for a type that contains itself."""
    kind, _ = parse(schema.text, schema.dependencies)
    return _shape(kind, ())


def read_with(written: Resolved, wanted: Resolved) -> Callable[[bytes], Any]:
    """Return a function that reads payloads of one schema with another schema: fields are matched
    by name, and missing ones get their defaults. The function raises UnfitValue. Raises
    SchemaError."""
    column = shape(wanted)
    target = (wanted.text, wanted.dependencies)
    read = reader(written.text, written.dependencies, target, named=True)
    return read if column.convert is None else lambda payload: column.converted(read(payload))


def _shape(kind: Type, within: tuple[str, ...]) -> Shape:
    match kind.kind:
        case "record" | "error":
            return _record(kind, within)
        case "array":
            assert kind.items is not None
            items = _shape(kind.items, within)
            return Shape(t.ArrayType(items.type), many(items.convert))
        case "map":
            assert kind.items is not None
            items = _shape(kind.items, within)
            return Shape(t.MapType(t.StringType(), items.type), mapped(items.convert))
        case "union":
            return _union(kind, within)
        case _:
            return _primitive(kind)


def _record(kind: Type, within: tuple[str, ...]) -> Shape:
    if kind.name in within:
        raise SchemaError(f"{kind.name} contains itself: Spark has no recursive types")
    shapes = {each.name: _shape(each.type, (*within, kind.name)) for each in kind.fields}
    fields = [t.StructField(name, each.type) for name, each in shapes.items()]
    converts = {n: each.convert for n, each in shapes.items() if each.convert is not None}
    return Shape(t.StructType(fields), recorded(converts))


def _primitive(kind: Type) -> Shape:
    logical = str(kind.properties.get("logicalType"))
    match kind.kind, logical:
        case (("bytes" | "fixed"), "decimal"):
            precision, scale = kind.properties["precision"], kind.properties.get("scale", 0)
            if precision > DIGITS_MAX:
                raise SchemaError(f"Spark's decimals have at most {DIGITS_MAX} digits")
            return Shape(t.DecimalType(precision, scale), _scaled(scale))
        case (("bytes" | "fixed"), _):
            return Shape(t.BinaryType(), _bytes)
        case "int", "date":
            return Shape(t.DateType(), _date)
        case "int", "time-millis":
            return Shape(t.IntegerType(), lambda value: _microseconds(value) // 1000)
        case "long", "time-micros":
            return Shape(t.LongType(), _microseconds)
        case "long", _ if logical in _TIMESTAMPS:
            return Shape(t.TimestampType(), _since(_EPOCH, logical))
        case "long", _ if logical in _LOCAL:
            return Shape(t.TimestampNTZType(), _since(_EPOCH.replace(tzinfo=None), logical))
        case "string", "uuid":
            return Shape(t.StringType(), str)
        case _:
            return Shape(_PRIMITIVES[kind.kind])


# In the schema's JSON, a field's default has another form than a value: bytes are text, decimals
# are the text of their bytes, and dates and times are numbers.


def _bytes(value: Any) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else value


def _scaled(scale: int) -> Convert:
    def convert(value: Any) -> decimal.Decimal:
        if not isinstance(value, str):
            return value
        unscaled = int.from_bytes(value.encode("latin-1"), "big", signed=True)
        return decimal.Decimal(unscaled).scaleb(-scale)

    return convert


def _date(value: Any) -> datetime.date:
    return _EPOCH.date() + datetime.timedelta(value) if isinstance(value, int) else value


def _since(epoch: datetime.datetime, logical: str) -> Convert:
    unit = 1000 if logical.endswith("millis") else 1

    def convert(value: Any) -> datetime.datetime:
        if not isinstance(value, int):
            return value
        return epoch + datetime.timedelta(microseconds=value * unit)

    return convert


def _microseconds(value: Any) -> int:
    if not isinstance(value, datetime.time):
        return int(value)
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _branches(kind: Type) -> list[Type]:
    return [each for each in kind.branches if each.kind != "null"]


def _one_number(branches: list[Type]) -> t.DataType | None:
    """Spark's type for a union of two numbers; None for another union."""
    if any("logicalType" in each.properties for each in branches):
        return None
    kinds = {each.kind for each in branches}
    if kinds == {"int", "long"}:
        return t.LongType()
    return t.DoubleType() if kinds == {"float", "double"} else None


def _union(kind: Type, within: tuple[str, ...]) -> Shape:
    branches = _branches(kind)
    if not branches:
        return Shape(t.NullType())
    if len(branches) == 1:
        return _shape(branches[0], within)
    number = _one_number(branches)
    if number is not None:
        return Shape(number)
    shapes = [_shape(each, within) for each in branches]
    several = sum(bool(each.name) for each in branches) > 1
    names = [f"member{index}" for index in range(len(branches))]

    def convert(value: Any) -> dict[str, Any]:
        if isinstance(value, tuple):  # the name of a branch, and its value
            name, inner = cast("tuple[str, Any]", value)
            index = next(i for i, each in enumerate(branches) if each.name == name)
            return {names[index]: shapes[index].converted(inner)}
        for index, each in enumerate(branches):
            if (not each.name or not several) and _is_of(each, value):
                return {names[index]: shapes[index].converted(value)}
        raise UnfitValue(f"no type of the union has the value {str(value)[:100]}")

    fields = [t.StructField(n, each.type) for n, each in zip(names, shapes, strict=True)]
    return Shape(t.StructType(fields), convert)


def _is_of(kind: Type, value: Any) -> bool:
    """Whether a decoded value belongs to this branch."""
    match kind.kind:
        case "boolean":
            return isinstance(value, bool)
        case "int":
            small = isinstance(value, int) and not isinstance(value, bool)
            if "logicalType" in kind.properties:
                return isinstance(value, datetime.date | datetime.time) or small
            return small and -(1 << 31) <= value < 1 << 31
        case "long":
            if "logicalType" in kind.properties:
                return isinstance(value, datetime.datetime | datetime.time | int)
            return isinstance(value, int) and not isinstance(value, bool)
        case "float" | "double":
            return isinstance(value, float)
        case "string":
            return isinstance(value, str | uuid.UUID)
        case "enum":
            return value in kind.symbols
        case "bytes" | "fixed":
            return isinstance(value, bytes | decimal.Decimal)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


# writing


def writer(schema: Resolved, column: t.DataType) -> Callable[[Any], bytes]:
    """Return a function that encodes a column's values; it raises UnfitValue. Raises SchemaError if
    the column does not fit the schema."""
    kind, _ = parse(schema.text, schema.dependencies)
    prepare = _prepare(kind, column, "the column")
    write = plain_writer(schema.text, schema.dependencies)
    return write if prepare is None else lambda value: write(_given(prepare, value))


def _given(prepare: Convert, value: Any) -> Any:
    return None if value is None else prepare(value)


_FITS: Final[dict[str, tuple[type[t.DataType], ...]]] = {
    "null": (t.NullType,),
    "boolean": (t.BooleanType,),
    "int": (t.ByteType, t.ShortType, t.IntegerType),
    "long": (t.ByteType, t.ShortType, t.IntegerType, t.LongType),
    "float": (t.FloatType,),
    "double": (t.FloatType, t.DoubleType),
    "string": (t.StringType,),
    "enum": (t.StringType,),
    "bytes": (t.BinaryType,),
    "fixed": (t.BinaryType,),
}


def _misfit(path: str, kind: Type, column: t.DataType) -> SchemaError:
    logical = kind.properties.get("logicalType")
    named = f"{kind.branch_name} ({logical})" if logical else kind.branch_name
    return SchemaError(f"{path} is {column.simpleString()}, but the schema has {named}")


def _prepare(kind: Type, column: t.DataType, path: str) -> Convert | None:
    match kind.kind, column:
        case (("record" | "error"), t.StructType()):
            return _prepare_record(kind, column, path)
        case "array", t.ArrayType():
            assert kind.items is not None
            return many(_prepare(kind.items, column.elementType, f"an item of {path}"))
        case "map", t.MapType() if isinstance(column.keyType, t.StringType):
            assert kind.items is not None
            inner = _prepare(kind.items, column.valueType, f"a value of {path}")
            if inner is None:
                return dict
            return lambda pairs: {k: _given(inner, v) for k, v in pairs}
        case "union", _:
            return _prepare_union(kind, column, path)
        case _:
            if not _leaf_fits(kind, column):
                raise _misfit(path, kind, column)
            return None


def _leaf_fits(kind: Type, column: t.DataType) -> bool:
    logical = str(kind.properties.get("logicalType"))
    match kind.kind, logical:
        case (("bytes" | "fixed"), "decimal"):
            return (
                isinstance(column, t.DecimalType)
                and column.scale <= kind.properties.get("scale", 0)
                and column.precision - column.scale
                <= kind.properties["precision"] - kind.properties.get("scale", 0)
            )
        case "int", "date":
            return isinstance(column, t.DateType)
        case "long", _ if logical in _TIMESTAMPS:
            return isinstance(column, t.TimestampType)
        case "long", _ if logical in _LOCAL:
            return isinstance(column, t.TimestampNTZType)
        case _:
            return isinstance(column, _FITS.get(kind.kind, ()))


def _prepare_record(kind: Type, column: t.StructType, path: str) -> Convert | None:
    known = {each.name: each for each in kind.fields}
    converts: dict[str, Convert] = {}
    for each in column.fields:
        if each.name not in known:
            raise SchemaError(f"{path} has a field {each.name}, which {kind.name} lacks")
        convert = _prepare(known[each.name].type, each.dataType, each.name)
        if convert is not None:
            converts[each.name] = convert
    lacking = [n for n, each in known.items() if not each.has_default and n not in column.names]
    if lacking:
        raise SchemaError(f"{path} lacks the field {lacking[0]}, which has no default")
    return recorded(converts)


def _prepare_union(kind: Type, column: t.DataType, path: str) -> Convert | None:
    branches = _branches(kind)
    if isinstance(column, t.NullType) and len(branches) < len(kind.branches):
        return None
    if len(branches) > 1 and isinstance(column, t.StructType):
        names = [f"member{index}" for index in range(len(branches))]
        if column.names == names:
            return _prepare_members(branches, names, column, path)
    misfit: SchemaError | None = None
    for each in branches:
        try:
            inner = _prepare(each, column, path)
        except SchemaError as e:
            misfit = misfit or e
            continue
        if each.name and len(branches) > 1:
            return lambda value: (each.name, value if inner is None else inner(value))
        return inner
    raise misfit or _misfit(path, kind, column)


def _prepare_members(
    branches: list[Type], names: list[str], column: t.StructType, path: str
) -> Convert:
    inner = [
        _prepare(branch, field.dataType, f"{path}.{field.name}")
        for branch, field in zip(branches, column.fields, strict=True)
    ]

    def convert(members: dict[str, Any]) -> Any:
        for name, branch, each in zip(names, branches, inner, strict=True):
            value = members.get(name)
            if value is not None:
                plain = value if each is None else each(value)
                return (branch.name, plain) if branch.name else plain
        return None

    return convert


_DERIVED: Final[dict[type[t.DataType], Any]] = {
    t.BooleanType: "boolean",
    t.ByteType: "int",
    t.ShortType: "int",
    t.IntegerType: "int",
    t.LongType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.StringType: "string",
    t.BinaryType: "bytes",
    t.DateType: {"type": "int", "logicalType": "date"},
    t.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    t.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def schema_of(column: t.DataType, name: str) -> str:
    """The text of a schema for a column; each field may be null, which is its default. Raises
    SchemaError."""
    return json.dumps(_derived(column, name))


def _derived(column: t.DataType, name: str) -> Any:
    match column:
        case t.StructType():
            fields: list[Any] = []
            for each in column.fields:
                if not _NAME.fullmatch(each.name):
                    raise SchemaError(f"{each.name!r} cannot be the name of a field in Avro")
                inner = _derived(each.dataType, f"{name}_{each.name}")
                fields.append({"name": each.name, "type": ["null", inner], "default": None})
            return {"type": "record", "name": name, "fields": fields}
        case t.ArrayType():
            return {"type": "array", "items": ["null", _derived(column.elementType, name)]}
        case t.MapType() if isinstance(column.keyType, t.StringType):
            return {"type": "map", "values": ["null", _derived(column.valueType, name)]}
        case t.DecimalType():
            digits = {"precision": column.precision, "scale": column.scale}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        case _:
            found = _DERIVED.get(type(column))
            if found is None:
                raise SchemaError(f"Avro has no type for {column.simpleString()}")
            return found
