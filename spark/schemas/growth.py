"""Widens the columns of keys and values when records have new fields."""

from collections.abc import Container
from typing import Final

from pyspark.sql.types import DataType, StructField, StructType

NUMBERS: Final = frozenset((("int", "bigint"), ("int", "double"), ("float", "double")))
"""Pairs of number types: the second holds all values of the first. BIGINT and DOUBLE are not a
pair, since DOUBLE lacks most whole numbers above 2^53. Avro can read values of the first type as
the second; protobuf cannot always."""


def widened(known: StructType, found: StructType) -> StructType:
    """Add to `known` the fields that only `found` has, also inside structs. Known types are kept,
    and so are the known spellings of names that differ only in case."""
    fields: list[StructField] = []
    others = {field.name.lower(): field for field in found.fields}
    for field in known.fields:
        other = others.pop(field.name.lower(), None)
        if (
            other is not None
            and isinstance(field.dataType, StructType)
            and isinstance(other.dataType, StructType)
        ):
            inner = widened(field.dataType, other.dataType)
            field = StructField(field.name, inner, field.nullable)
        fields.append(field)
    return StructType([*fields, *others.values()])


def is_wider(known: DataType, found: DataType, numbers: Container[tuple[str, str]] = ()) -> bool:
    """Whether `found` has every field of `known`, with the same type or a wider one of
    `numbers`."""
    if not isinstance(known, StructType) or not isinstance(found, StructType):
        types = known.simpleString(), found.simpleString()
        return types[0] == types[1] or types in numbers
    others = {each.name: each.dataType for each in found.fields}
    return all(
        each.name in others and is_wider(each.dataType, others[each.name], numbers)
        for each in known.fields
    )
