"""Parses JSON texts into columns, either without any change of values or not at all.

Spark's own parser accepts as much of a text as it can: it rounds decimals, drops the time after a
date, ignores text after an object, uses the last of two equal keys, and writes a question mark for
an unpaired surrogate. Here, each of these is a reason why a text does not fit, and the caller
decides what to do.

Numbers with a fraction are kept as they are written until a column's type is known. A column of
type STRING has the text of a JSON string, and for every other value its JSON, with its order, types
and digits.
"""

import base64
import datetime
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple, cast
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from pk.spark.errors import OptionError

TOO_DEEP: Final = "the value is nested too deeply"

Convert = Callable[[Any], Any]
"""Converts a JSON value that is not null to an Arrow value. Raises Unfit."""

_SHOWN_MAX: Final = 100
_INTEGERS: Final[Mapping[type[t.DataType], int]] = {
    t.ByteType: 8,
    t.ShortType: 16,
    t.IntegerType: 32,
    t.LongType: 64,
}
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?)? ?(Z|[+-]\d\d(?::?\d\d)?)?"
)
_DIGITS_MAX: Final = 40
_WIDE: Final = Context(prec=76)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
"""Numbers that JSON lacks; Spark writes and reads them as strings."""


class Unfit(ValueError):
    """A text is not valid JSON, or a value does not fit its column. The message is the reason."""


class Number(str):
    """A number with a fraction or an exponent, as written in the JSON."""

    __slots__ = ()


class Field(NamedTuple):
    """A column: the value at `path` inside the object, as `type`."""

    name: str
    path: tuple[str, ...]
    type: t.DataType


def fields_of(schema: t.StructType) -> list[Field]:
    """The columns for the fields of a schema."""
    return [Field(each.name, (each.name,), each.dataType) for each in schema.fields]


def load(text: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises Unfit."""
    value = load_value(text, _not_object)
    if not isinstance(value, dict):
        raise Unfit("the value is not a JSON object")
    return cast("dict[str, Any]", value)


def load_value(text: bytes, said: Callable[[bytes, ValueError], str] | None = None) -> Any:
    """Parse a JSON value. Raises Unfit; `said` converts the decoder's error to its message."""
    try:
        return _DECODER.decode(text.decode())
    except UnicodeDecodeError as e:
        raise Unfit(f"the value is not UTF-8: {e.reason} at byte {e.start}") from None
    except RecursionError:
        raise Unfit(TOO_DEEP) from None
    except Unfit:
        raise
    except ValueError as e:
        raise Unfit((said or _not_json)(text, e)) from None


def load_all(
    texts: Iterable[bytes | None],
) -> tuple[list[Mapping[str, Any]], list[str | None]]:
    """Parse JSON objects. Returns the objects, and by row the reason why a text is not an object;
    None if it is. The object of such a text or of a null is empty."""
    rows: list[Mapping[str, Any]] = []
    reasons: list[str | None] = []
    for text in texts:
        reason = None
        row: dict[str, Any] = {}
        if text is not None:
            try:
                row = load(text)
            except Unfit as e:
                reason = str(e)
        rows.append(row)
        reasons.append(reason)
    return rows, reasons


def _not_object(text: bytes, error: ValueError) -> str:
    if not text.lstrip(b" \t\r\n").startswith(b"{"):
        return "the value is not a JSON object"
    return _not_json(text, error)


def _not_json(text: bytes, error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        if error.msg == "Extra data":
            return f"the value is not JSON: more text after the object, at character {error.pos}"
        return f"the value is not JSON: {error.msg} at character {error.pos}"
    return f"the value is not JSON: {error}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Unfit(f"the value has the key {name} twice")
            seen.add(name)
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_constant=_constant
)


def json_text(value: Any) -> str:
    """The JSON of a loaded value, with the order, types and digits that it had."""
    if type(value) is Number:
        return value
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value).items()
        return "{" + ",".join(f"{_quoted(name)}:{json_text(each)}" for name, each in parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, cast("list[Any]", value))) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class JsonReader:
    """A reader of JSON objects into columns."""

    def __init__(self, fields: Sequence[Field], zone: str) -> None:
        """`zone` is the time zone of times that name none. Raises OptionError for a type that JSON
        lacks."""
        types = [to_arrow_type(each.type, timezone="UTC") for each in fields]
        self.schema = pa.schema(
            [pa.field(each.name, type_) for each, type_ in zip(fields, types, strict=True)]
        )
        self._columns = [
            _Column(each.path, convert_of(each.type, zone), type_)
            for each, type_ in zip(fields, types, strict=True)
        ]

    def read(self, texts: Iterable[bytes | None]) -> tuple[list[pa.Array], list[str | None]]:
        """Parse texts. Returns the columns, and for each row the reason why it does not fit; None
        if it does. Values that do not fit are null. All columns of a null text are null."""
        rows, reasons = load_all(texts)
        return self.columns(rows, reasons), reasons

    def columns(
        self, rows: Sequence[Mapping[str, Any]], reasons: list[str | None]
    ) -> list[pa.Array]:
        """The columns of objects. Adds to `reasons` why an object does not fit."""
        return [column.read(rows, reasons) for column in self._columns]


class _Column:
    """A column that is read from objects."""

    def __init__(self, path: tuple[str, ...], convert: Convert, type_: pa.DataType) -> None:
        self._path = path
        self._convert = convert
        self._type = type_

    def read(self, rows: Sequence[Mapping[str, Any]], reasons: list[str | None]) -> pa.Array:
        if len(self._path) == 1:
            [name] = self._path
            values = [row.get(name) for row in rows]
            quick = _convert_with_arrow(values, self._type)
            if quick is not None:
                return quick
        found: list[Any] = []
        for number, row in enumerate(rows):
            try:
                found.append(_at(row, self._path, self._convert))
            except (Unfit, RecursionError) as e:
                found.append(None)
                before = reasons[number]
                said = f"{'.'.join(self._path)}{e}" if isinstance(e, Unfit) else TOO_DEEP
                reasons[number] = said if before is None else f"{before}; {said}"
        return pa.array(found, self._type)


_NULL: Final = type(None)


def _convert_with_arrow(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Convert a whole column with Arrow, if that has the same result as `convert_of`; otherwise
    None."""
    types = set(map(type, values))
    types.discard(_NULL)
    try:
        if pa.types.is_integer(kind) and types <= {int}:
            return pa.array(values, kind)
        if pa.types.is_string(kind) and types <= {str}:
            return pa.array(values, kind)
        if pa.types.is_boolean(kind) and types <= {bool}:
            return pa.array(values, kind)
        if pa.types.is_float64(kind) and types <= {Number}:
            found = pa.array([None if each is None else float(each) for each in values], kind)
            return found if pc.all(pc.is_finite(found)).as_py() is not False else None
        if pa.types.is_decimal(kind) and types <= {int, Number}:
            texts = [None if each is None else str(each) for each in values]
            if any(each is not None and _is_odd(each) for each in texts):
                return None
            return pc.cast(pa.array(texts, pa.string()), kind)
        if pa.types.is_timestamp(kind) and kind.tz is not None and types <= {str}:
            return pc.cast(pa.array(values, pa.string()), kind)
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        pass
    return None


def _is_odd(number: str) -> bool:
    """Whether Arrow's parser of decimals may crash on this number."""
    return len(number) > _DIGITS_MAX or "e" in number or "E" in number


def _at(value: Mapping[str, Any], path: tuple[str, ...], convert: Convert) -> Any:
    found: Any = value
    for depth, name in enumerate(path):
        if not isinstance(found, dict):
            outer = ".".join(path[:depth])
            raise Unfit(f": {outer} is not an object: {_shown(found)}")
        found = cast("dict[str, Any]", found).get(name)
        if found is None:
            return None
    return convert(found)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value)
    return text[:_SHOWN_MAX]


def convert_of(kind: t.DataType, zone: str) -> Convert:
    """Return a function that converts a JSON value to a column's value. Raises OptionError for a
    type that JSON lacks."""
    says = f" is not {kind.simpleString().upper()}: "

    def checked(convert: Convert) -> Convert:
        """Return a function that raises Unfit, with the column's type, for a value that does not
        fit."""

        def run(value: Any) -> Any:
            try:
                return convert(value)
            except (ValueError, ArithmeticError):
                raise Unfit(f"{says}{_shown(value)}") from None

        return run

    match kind:
        case t.StringType() | t.CharType() | t.VarcharType():
            return _string
        case t.ByteType() | t.ShortType() | t.IntegerType() | t.LongType():
            return checked(_integer(_INTEGERS[type(kind)]))
        case t.FloatType() | t.DoubleType():
            return checked(_float)
        case t.DecimalType():
            return checked(lambda value: fit_decimal(_digits(value), kind.precision, kind.scale))
        case t.BooleanType():
            return checked(_boolean)
        case t.DateType():
            return checked(lambda value: read_date(_text(value)))
        case t.TimestampType():
            return checked(_timestamp(zone))
        case t.TimestampNTZType():
            return checked(lambda value: read_time(_text(value), None))
        case t.BinaryType():
            return checked(lambda value: base64.b64decode(_text(value), validate=True))
        case t.StructType():
            return _struct(kind, zone, says)
        case t.ArrayType():
            return _array(kind, zone, says)
        case t.MapType() if isinstance(kind.keyType, t.StringType):
            return _map(kind, zone, says)
        case _:
            raise OptionError(f"JSON has no type {kind.simpleString().upper()}")


def _string(value: Any) -> str:
    text = value if type(value) is str else json_text(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unfit(" has half a character: \\ud800 to \\udfff must come in pairs") from None
    return text


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError
    return value


def _integer(bits: int) -> Convert:
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is not int or not low <= value < high:
            raise ValueError
        return value

    return convert


def _float(value: Any) -> float:
    if type(value) is int:
        found = float(value)
        if int(found) != value:
            raise ValueError
        return found
    if type(value) is not Number and value not in _NOT_FINITE:
        raise ValueError
    found = float(value)
    if type(value) is Number and found in (float("inf"), float("-inf")):
        raise ValueError
    return found


def _digits(value: Any) -> str:
    if type(value) not in (int, Number, str):
        raise ValueError
    return str(value)


def fit_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Parse a number with all its digits. Raises ValueError or ArithmeticError if it has more
    digits than fit, since numbers are not rounded."""
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    if type(exponent) is not int:
        raise ValueError
    kept = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(kept)
    if not kept.lstrip("0"):
        return Decimal(0)
    if -exponent > scale or len(kept.lstrip("0")) + exponent > precision - scale:
        raise ValueError
    return value.quantize(Decimal(1).scaleb(-scale), context=_WIDE)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def read_date(text: str) -> datetime.date:
    """Parse a date such as 2026-01-31. Raises ValueError."""
    if not _DATE.fullmatch(text):
        raise ValueError
    return datetime.date.fromisoformat(text)


def read_time(text: str, zone: str | None) -> datetime.datetime:
    """Parse a date and time such as 2026-01-31T09:30:00.123456Z. `zone` is the time zone of a time
    that names none; if it is None, times must not name one. Raises ValueError, for example for more
    digits than microseconds have."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError
    date, clock, fraction, offset = found.groups()
    if offset is not None and (zone is None or clock is None):
        raise ValueError
    moment = datetime.datetime.fromisoformat(f"{date}T{clock or '00:00'}")
    if fraction is not None:
        if fraction[6:].strip("0"):
            raise ValueError
        moment = moment.replace(microsecond=int(fraction[:6].ljust(6, "0")))
    if zone is None:
        return moment
    if offset is None:
        return moment.replace(tzinfo=ZoneInfo(zone)).astimezone(datetime.UTC)
    return datetime.datetime.fromisoformat(f"{moment.isoformat()}{offset}").astimezone(datetime.UTC)


def _timestamp(zone: str) -> Convert:
    def convert(value: Any) -> datetime.datetime:
        if type(value) is str:
            return read_time(value, zone)
        if type(value) not in (int, Number):
            raise ValueError
        # A number counts seconds since 1970, as in Spark.
        micros = fit_decimal(str(value), 20, 6) * 1_000_000
        return _EPOCH + datetime.timedelta(microseconds=int(micros))

    return convert


def _struct(kind: t.StructType, zone: str, says: str) -> Convert:
    fields = [(each.name, convert_of(each.dataType, zone)) for each in kind.fields]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Unfit(f"{says}{_shown(value)}")
        given = cast("dict[str, Any]", value)
        found: dict[str, Any] = {}
        for name, each in fields:
            inner = given.get(name)
            if inner is not None:
                try:
                    found[name] = each(inner)
                except Unfit as e:
                    raise Unfit(f".{name}{e}") from None
        return found

    return convert


def _array(kind: t.ArrayType, zone: str, says: str) -> Convert:
    each = convert_of(kind.elementType, zone)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Unfit(f"{says}{_shown(value)}")
        found: list[Any] = []
        for number, inner in enumerate(cast("list[Any]", value)):
            try:
                found.append(None if inner is None else each(inner))
            except Unfit as e:
                raise Unfit(f"[{number}]{e}") from None
        return found

    return convert


def _map(kind: t.MapType, zone: str, says: str) -> Convert:
    each = convert_of(kind.valueType, zone)

    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise Unfit(f"{says}{_shown(value)}")
        found: list[tuple[str, Any]] = []
        for name, inner in cast("dict[str, Any]", value).items():
            try:
                found.append((_string(name), None if inner is None else each(inner)))
            except Unfit as e:
                raise Unfit(f".{name}{e}") from None
        return found

    return convert
