"""Counts the elements of a message, since the time to process it depends on them."""

import functools
from typing import Any

from pk.core.wire.emit import fields_of
from pk.core.wire.schema import Array, Struct


def has_many(message: Struct, limit: int) -> bool:
    """Return whether the arrays of `message` have more than `limit` elements in total."""
    count, parts = 0, [message]
    while parts:
        part = parts.pop()
        for name, holds_arrays in arrays_of(type(part)):
            elements = getattr(part, name) or ()
            count += len(elements)
            if count > limit:
                return True
            if holds_arrays:
                parts += elements
    return False


@functools.cache
def arrays_of(cls: type[Any]) -> list[tuple[str, bool]]:
    """Return the fields of a struct that are arrays, and for each whether its elements have arrays
    too."""
    if not issubclass(cls, Struct):
        return []
    arrays = ((name, kind.element) for name, kind, _ in fields_of(cls) if isinstance(kind, Array))
    return [
        (name, isinstance(element, type) and bool(arrays_of(element))) for name, element in arrays
    ]
