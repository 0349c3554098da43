"""How the columns of keys and values grow with the fields that records gain."""

from collections.abc import Container
from typing import Final

from pyspark.sql.types import DataType, StructField, StructType

NUMBERS: Final = frozenset((("int", "bigint"), ("int", "double"), ("float", "double")))
"""Types of numbers, each with a wider one that holds all its values: not BIGINT with DOUBLE, which
lacks most whole numbers above 2^53. Avro reads the values of one as the other; protobuf may not."""


def widened(known: StructType, found: StructType) -> StructType:
    """`known` with the fields that only `found` has, also inside structs. The known types stay, and
    so do the known names of fields that differ only in upper and lower case."""
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
    """Whether a type has every field of another, with its type or a wider one of `numbers`, and
    maybe more."""
    if not isinstance(known, StructType) or not isinstance(found, StructType):
        types = known.simpleString(), found.simpleString()
        return types[0] == types[1] or types in numbers
    others = {each.name: each.dataType for each in found.fields}
    return all(
        each.name in others and is_wider(each.dataType, others[each.name], numbers)
        for each in known.fields
    )
