"""How the columns of keys and values grow with the fields that records gain."""

from pyspark.sql.types import DataType, StructField, StructType


def widened(known: StructType, found: StructType) -> StructType:
    """`known` with the fields that only `found` has, also inside structs. The known types stay, and
    so do the known names of fields that differ in upper and lower case alone."""
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


def is_wider(known: DataType, found: DataType) -> bool:
    """Whether a type has every field of another, with its type, and maybe more."""
    if not isinstance(known, StructType) or not isinstance(found, StructType):
        return known.simpleString() == found.simpleString()
    others = {each.name: each.dataType for each in found.fields}
    return all(
        each.name in others and is_wider(each.dataType, others[each.name]) for each in known.fields
    )
