"""Finds numbers with a fraction in BIGINT fields, which may then become DOUBLE."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from pk.spark.text.json_reader import Number, Unfit, load

Path = tuple[str, ...]
"""The names that lead to a field inside nested objects."""

_LENGTH_MAX: Final = 100
"""The longest number that can change a column's type, in characters."""


def shown_path(path: Path) -> str:
    """A path in the form for messages."""
    return ".".join(path)


def whole_fields(schema: StructType, path: Path = ()) -> Iterator[Path]:
    """The BIGINT fields of a schema, also inside structs."""
    for field in schema.fields:
        if isinstance(field.dataType, LongType):
            yield (*path, field.name)
        elif isinstance(field.dataType, StructType):
            yield from whole_fields(field.dataType, (*path, field.name))


def wider_numbers(value: Mapping[str, Any], schema: StructType) -> dict[Path, Number]:
    """The numbers with a fraction or an exponent that an object has in BIGINT fields."""
    found: dict[Path, Number] = {}
    for path in whole_fields(schema):
        each = value_at(value, path)
        if type(each) is Number and len(each) <= _LENGTH_MAX:
            found[path] = each
    return found


def value_at(value: Mapping[str, Any], path: Path) -> Any:
    """The value at a path; None if there is no value."""
    found: Any = value
    for name in path:
        if not isinstance(found, dict):
            return None
        found = cast("dict[str, Any]", found).get(name)
    return found


def with_doubles(schema: StructType, paths: Collection[Path]) -> StructType:
    """A schema in which the fields at `paths` are DOUBLE."""
    fields: list[StructField] = []
    for field in schema.fields:
        inner = [path[1:] for path in paths if path[0] == field.name]
        kind = field.dataType
        if () in inner:
            kind = DoubleType()
        elif inner and isinstance(kind, StructType):
            kind = with_doubles(kind, inner)
        fields.append(StructField(field.name, kind, field.nullable, field.metadata))
    return StructType(fields)


def not_double(texts: Iterable[bytes], path: Path) -> int | None:
    """A whole number at a path in one of the objects that DOUBLE cannot represent; None if there is
    none."""
    for text in texts:
        try:
            each = value_at(load(text), path)
        except Unfit:
            continue
        if type(each) is int and not _is_double(each):
            return each
    return None


def _is_double(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False
