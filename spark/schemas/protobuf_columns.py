"""Converts between protobuf messages and Spark's columns.

A message is a struct. A field with presence (`optional`, in a `oneof`, or a message) is null if it
is not set; any other field then has protobuf's default. Unsigned 32-bit numbers are bigint, and
unsigned 64-bit numbers are decimal(20,0), so that no value is lost. Enum values are their names, or
numbers if the schema has no name for them. Among the well-known types, timestamps are timestamps,
durations are microseconds, wrappers are the value or null, and Struct, Value and ListValue are JSON
text.

Protobuf identifies fields by number, so the reader's message can read the payloads of older and
newer versions.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any, Final, cast

from pyspark.sql import types as t

from pk.core.schemas.languages import parse
from pk.core.schemas.protobuf.descriptors import File
from pk.core.schemas.protobuf.values import builder, message_to_json, parser
from pk.core.schemas.schema import Resolved, SchemaError, UnfitValue
from pk.spark.schemas.shapes import Convert, Shape

Place = tuple[int, ...]

_FIRST: Final = (0,)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MESSAGES: Final = (10, 11)
"""The field types TYPE_GROUP and TYPE_MESSAGE in descriptor.proto."""

_ENUM: Final = 14
_REPEATED: Final = 3
_UINT64: Final = (4, 6)
_SCALARS: Final[dict[int, t.DataType]] = {
    1: t.DoubleType(),
    2: t.FloatType(),
    3: t.LongType(),
    4: t.DecimalType(20, 0),
    5: t.IntegerType(),
    6: t.DecimalType(20, 0),
    7: t.LongType(),
    8: t.BooleanType(),
    9: t.StringType(),
    12: t.BinaryType(),
    13: t.LongType(),
    14: t.StringType(),
    15: t.IntegerType(),
    16: t.LongType(),
    17: t.IntegerType(),
    18: t.LongType(),
}
"""The field types by their number in descriptor.proto."""

_WRAPPERS: Final[dict[str, t.DataType]] = {
    "google.protobuf.DoubleValue": t.DoubleType(),
    "google.protobuf.FloatValue": t.FloatType(),
    "google.protobuf.Int64Value": t.LongType(),
    "google.protobuf.UInt64Value": t.DecimalType(20, 0),
    "google.protobuf.Int32Value": t.IntegerType(),
    "google.protobuf.UInt32Value": t.LongType(),
    "google.protobuf.BoolValue": t.BooleanType(),
    "google.protobuf.StringValue": t.StringType(),
    "google.protobuf.BytesValue": t.BinaryType(),
}
_JSON: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"


def shape(schema: Resolved, name: str | None = None) -> Shape:
    """The column for a schema's message, by default the first one. Raises SchemaError."""
    file: File = parse(schema).model
    return _message(file.message(file.indexes_of(name)), ())


def read_with(
    written: Resolved, wanted: Resolved, name: str | None = None
) -> Callable[[bytes, Place], Any]:
    """Return a function that reads payloads as a message of the schema `wanted`. Its second
    argument is the place of the payload's message in the schema `written`. The function raises
    UnfitValue, SchemaError. Raises SchemaError."""
    theirs: File = parse(written).model
    ours: File = parse(wanted).model
    place = ours.indexes_of(name)
    descriptor: Any = ours.message(place)
    column, read_message = _message(descriptor, ()), parser(ours, place)
    right: set[Place] = set()

    def read(payload: bytes, at: Place) -> Any:
        if at not in right:
            found: Any = theirs.message(at)
            if found.full_name != descriptor.full_name:
                raise UnfitValue(
                    f"it holds the message {found.full_name}, not {descriptor.full_name}"
                )
            right.add(at)
        return column.converted(read_message(payload))

    return read


def _message(descriptor: Any, within: tuple[str, ...]) -> Shape:
    full = str(descriptor.full_name)
    if full in within:
        raise SchemaError(f"{full} contains itself: Spark has no recursive types")
    if full in _WRAPPERS:
        kind = _WRAPPERS[full]
        whole = isinstance(kind, t.DecimalType)
        return Shape(kind, (lambda m: _decimal(m.value)) if whole else lambda m: m.value)
    if full == _TIMESTAMP:
        return Shape(t.TimestampType(), _timestamp)
    if full == _DURATION:
        return Shape(t.LongType(), lambda m: m.seconds * 1_000_000 + m.nanos // 1000)
    if full in _JSON:
        return Shape(t.StringType(), message_to_json)
    parts: list[tuple[str, bool, Convert | None]] = []
    fields: list[t.StructField] = []
    for each in descriptor.fields:
        found = _field(each, (*within, full))
        fields.append(t.StructField(each.name, found.type))
        parts.append((each.name, bool(each.has_presence), found.convert))

    def convert(message: Any) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for name, presence, each in parts:
            if not presence or message.HasField(name):
                value = getattr(message, name)
                row[name] = value if each is None else each(value)
        return row

    return Shape(t.StructType(fields), convert)


def _field(field: Any, within: tuple[str, ...]) -> Shape:
    if not _repeats(field):
        return _single(field, within)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key = _single(entry.fields_by_name["key"], within)
        value = _single(entry.fields_by_name["value"], within)
        return Shape(
            t.MapType(key.type, value.type),
            lambda found: [(key.converted(k), value.converted(found[k])) for k in found],
        )
    item = _single(field, within)
    return Shape(t.ArrayType(item.type), lambda values: [item.converted(each) for each in values])


def _repeats(field: Any) -> bool:
    """Whether a field is repeated. Older versions of the library have only the label."""
    found = getattr(field, "is_repeated", None)
    return field.label == _REPEATED if found is None else bool(found)


def _single(field: Any, within: tuple[str, ...]) -> Shape:
    if field.type in _MESSAGES:
        return _message(field.message_type, within)
    if field.type == _ENUM:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return Shape(t.StringType(), lambda number: names.get(number, str(number)))
    if field.type in _UINT64:
        return Shape(_SCALARS[field.type], _decimal)
    return Shape(_SCALARS[field.type])


def _decimal(value: int) -> decimal.Decimal:
    return decimal.Decimal(value)


def _timestamp(message: Any) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(
            seconds=message.seconds, microseconds=message.nanos // 1000
        )
    except OverflowError:
        raise UnfitValue(f"{message.seconds} seconds are outside Spark's timestamps") from None


# writing


def writer(schema: Resolved, column: t.DataType, name: str | None = None) -> Callable[[Any], bytes]:
    """Return a function that encodes a column's values; it raises UnfitValue. Raises SchemaError if
    the column does not fit the message."""
    file: File = parse(schema).model
    place = file.indexes_of(name)
    fill, make = _fill(file.message(place), column, "the column"), builder(file, place)

    def write(value: Any) -> bytes:
        message = make()
        try:
            fill(message, value)
        except (TypeError, ValueError, OverflowError) as e:
            raise UnfitValue(f"the value does not fit its schema: {e}") from None
        return message.SerializeToString(deterministic=True)

    return write


Fill = Callable[[Any, Any], None]
"""A function that sets a message from an Arrow value."""


def _fill(descriptor: Any, column: t.DataType, path: str) -> Fill:
    full = str(descriptor.full_name)
    if full in _WRAPPERS:
        _check(column, _WRAPPERS[full], path, full)
        return lambda message, value: setattr(message, "value", _scalar(value))
    if full == _TIMESTAMP:
        _check(column, t.TimestampType(), path, full)
        return _fill_timestamp
    if full == _DURATION:
        _check(column, t.LongType(), path, full)
        return _fill_duration
    if not isinstance(column, t.StructType) or full in _JSON:
        raise SchemaError(f"{path} is {column.simpleString()}, but the schema has {full}")
    fields = {each.name: each for each in descriptor.fields}
    puts: list[tuple[str, Fill]] = []
    for each in column.fields:
        field = fields.get(each.name)
        if field is None:
            raise SchemaError(f"{path} has a field {each.name}, which {full} lacks")
        puts.append((each.name, _put(field, each.dataType)))

    def fill(message: Any, row: dict[str, Any]) -> None:
        for name, put in puts:
            value = row.get(name)
            if value is not None:
                put(message, value)

    return fill


def _put(field: Any, column: t.DataType) -> Fill:
    """Return a function that sets one field of a message."""
    name = str(field.name)
    if not _repeats(field):
        if field.type in _MESSAGES:
            inner = _fill(field.message_type, column, name)

            def put_message(message: Any, value: Any) -> None:
                part = getattr(message, name)
                part.SetInParent()
                inner(part, value)

            return put_message
        convert = _to_scalar(field, column)
        return lambda message, value: setattr(message, name, convert(value))
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return _put_map(field, column)
    if not isinstance(column, t.ArrayType):
        raise SchemaError(f"{name} is {column.simpleString()}, but the schema has a repeated field")
    if field.type in _MESSAGES:
        inner = _fill(field.message_type, column.elementType, name)

        def put_messages(message: Any, values: list[Any]) -> None:
            for value in values:
                inner(getattr(message, name).add(), value)

        return put_messages
    convert = _to_scalar(field, column.elementType)
    return lambda message, values: getattr(message, name).extend(map(convert, values))


def _put_map(field: Any, column: t.DataType) -> Fill:
    name = str(field.name)
    if not isinstance(column, t.MapType):
        raise SchemaError(f"{name} is {column.simpleString()}, but the schema has a map")
    entry = field.message_type
    key = _to_scalar(entry.fields_by_name["key"], column.keyType)
    held = entry.fields_by_name["value"]
    if held.type in _MESSAGES:
        inner = _fill(held.message_type, column.valueType, name)

        def put_messages(message: Any, pairs: list[tuple[Any, Any]]) -> None:
            for k, v in pairs:
                inner(getattr(message, name)[key(k)], v)

        return put_messages
    convert = _to_scalar(held, column.valueType)

    def put(message: Any, pairs: list[tuple[Any, Any]]) -> None:
        found = getattr(message, name)
        for k, v in pairs:
            found[key(k)] = convert(v)

    return put


_NARROWER: Final[dict[type[t.DataType], tuple[type[t.DataType], ...]]] = {
    t.LongType: (t.ByteType, t.ShortType, t.IntegerType),
    t.IntegerType: (t.ByteType, t.ShortType),
    t.DoubleType: (t.FloatType,),
    t.DecimalType: (t.ByteType, t.ShortType, t.IntegerType, t.LongType),
}


def _check(column: t.DataType, wanted: t.DataType, path: str, named: str) -> None:
    if not isinstance(column, (type(wanted), *_NARROWER.get(type(wanted), ()))):
        raise SchemaError(f"{path} is {column.simpleString()}, but the schema has {named}")


def _to_scalar(field: Any, column: t.DataType) -> Convert:
    wanted = _SCALARS[field.type]
    _check(column, wanted, str(field.name), wanted.simpleString())
    if field.type != _ENUM:
        return _scalar
    numbers = {name: each.number for name, each in field.enum_type.values_by_name.items()}

    def convert(value: str) -> int:
        found = numbers.get(value)
        if found is None and not re.fullmatch(r"-?[0-9]{1,10}", value):
            raise UnfitValue(f"{field.name}: the enumeration has no {value[:100]!r}")
        return int(value) if found is None else found

    return convert


def _scalar(value: Any) -> Any:
    if not isinstance(value, decimal.Decimal):
        return value
    if value != value.to_integral_value():
        raise UnfitValue(f"{value} is not a whole number")
    return int(value)


def _fill_timestamp(message: Any, value: datetime.datetime) -> None:
    since = value - _EPOCH
    message.seconds = since.days * 86_400 + since.seconds
    message.nanos = since.microseconds * 1000


def _fill_duration(message: Any, value: int) -> None:
    seconds, rest = divmod(abs(value), 1_000_000)
    sign = -1 if value < 0 else 1
    message.seconds, message.nanos = sign * seconds, sign * rest * 1000


_DERIVED: Final[dict[type[t.DataType], str]] = {
    t.BooleanType: "bool",
    t.ByteType: "int32",
    t.ShortType: "int32",
    t.IntegerType: "int32",
    t.LongType: "int64",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.StringType: "string",
    t.BinaryType: "bytes",
    t.TimestampType: _TIMESTAMP,
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schema_of(column: t.DataType, name: str) -> str:
    """The text of a schema with a message for a column; its fields are numbered in order. Raises
    SchemaError."""
    if not isinstance(column, t.StructType):
        raise SchemaError(f"a message needs a struct, and the column is {column.simpleString()}")
    body = _message_text(column, name, "")
    imports = 'import "google/protobuf/timestamp.proto";\n' if _TIMESTAMP in body else ""
    return f'syntax = "proto3";\n{imports}{body}'


def _message_text(column: t.StructType, name: str, indent: str) -> str:
    lines: list[str] = []
    for number, each in enumerate(column.fields, 1):
        if not _NAME.fullmatch(each.name):
            raise SchemaError(f"{each.name!r} cannot be the name of a field in protobuf")
        kind, label = each.dataType, "optional "
        if isinstance(kind, t.ArrayType):
            kind, label = kind.elementType, "repeated "
        nested = f"{each.name[:1].upper()}{each.name[1:]}Message"
        if isinstance(kind, t.MapType):
            key = _scalar_text(kind.keyType)
            value = kind.valueType
            text, label = f"map<{key}, {_type_text(value, nested)}>", ""
            kind = value
        else:
            text = _type_text(kind, nested)
        if isinstance(kind, t.StructType):
            lines.append(_message_text(kind, nested, f"{indent}  "))
        lines.append(f"{indent}  {label}{text} {each.name} = {number};\n")
    return f"{indent}message {name} {{\n{''.join(lines)}{indent}}}\n"


def _type_text(column: t.DataType, nested: str) -> str:
    return nested if isinstance(column, t.StructType) else _scalar_text(column)


def _scalar_text(column: t.DataType) -> str:
    found = cast("str | None", _DERIVED.get(type(column)))
    if found is None:
        raise SchemaError(f"protobuf has no type for {column.simpleString()}")
    return found
