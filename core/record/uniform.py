"""Stretches of records of one shape, which have the same lengths and the same widths of numbers, as
measurements, counters and benchmarks have them.

Such records have a fixed stride. A slice with that stride has one byte of each of them, a *column*,
and is compared at the speed of C.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from pk.core.record.grammar import (
    HEADER_KEY,
    HEADER_VALUE,
    HEADERS,
    KEY,
    LENGTH,
    OFFSET,
    TIMESTAMP,
    VALUE,
    compile_loop,
)

Buffer = bytes | bytearray | memoryview
Column = bytes | bytearray

UNIFORM_MIN: Final = 16
"""The minimum number of records in a stretch. Slicing fewer would cost more than it saves."""
BACKOFF_MAX: Final = 4096
"""After a search that found no stretch, at most this many records are read one by one before the
next search: the number doubles each time."""

_LENGTH_BYTES_MAX: Final = 32
"""A shape with more length bytes than this (many headers) is not worth the slices."""
_COPIED_STRIDE_MAX: Final = 896
"""In a memoryview, stretches of records up to this size are copied once, since slicing bytes with a
stride takes a sixth of the time of slicing a memoryview. For larger records, the copy would cost
more than it saves."""
_CONTINUED: Final = bytes(range(0x80, 0x100))


class Shape(NamedTuple):
    """The positions of a record's parts, counted from its start."""

    lengths: list[int]
    """The positions of the bytes of lengths, and of the number of headers."""
    timestamps: range
    """The positions of the bytes of the timestamp delta."""
    offsets: range
    """The positions of the bytes of the offset delta."""
    key: int
    """The position of the key's first byte."""
    key_stop: int
    """The position after the key, where the length of the value begins."""
    value: int
    """The position of the value's first byte."""
    value_bytes: int
    """The length of the value; -1 for null."""
    headers: int
    """The number of headers."""
    stride: int
    """The size of the record in bytes."""


def shape_of(data: bytes | memoryview, start: int, compacted: bool = False) -> Shape | None:
    """Return the shape of the record at `start`. None if the record is unusual, has too many
    lengths, or has no key although the topic is `compacted`."""
    stop, found, *parts = _measure()(data, start, 0, 1, compacted)
    lengths, timestamps, offsets, key, key_stop, value, value_code, headers = parts
    if not found or len(lengths) > _LENGTH_BYTES_MAX:
        return None
    value_bytes = (value_code >> 1) ^ -(value_code & 1)
    return Shape(
        lengths, timestamps, offsets, key, key_stop, value, value_bytes, headers >> 1, stop - start
    )


class Columns:
    """The columns of the records of one shape that fill `size` bytes of `source` from `start`."""

    __slots__ = ("_end", "_source", "_start", "_stride", "count")

    def __init__(self, source: Buffer, start: int, size: int, shape: Shape) -> None:
        self._stride = shape.stride
        self.count = size // shape.stride
        end = start + size
        if isinstance(source, memoryview) and shape.stride <= _COPIED_STRIDE_MAX:
            source, start, end = source[start:end].tobytes(), 0, size
        self._source, self._start, self._end = source, start, end

    def at(self, position: int) -> Column:
        """Return the byte at `position` of each record."""
        column = self._source[self._start + position : self._end : self._stride]
        return bytes(column) if isinstance(column, memoryview) else column

    def are_same(self, positions: list[int]) -> bool:
        """Return whether all records have the same bytes at these positions."""
        for position in positions:
            column = self.at(position)
            if column != column[:1] * self.count:
                return False
        return True


def are_of_one_width(columns: list[Column]) -> bool:
    """Return whether the numbers whose bytes are in these columns all have exactly as many
    bytes."""
    return columns[-1].isascii() and not any(c.translate(None, _CONTINUED) for c in columns[:-1])


@cache
def _measure() -> Callable[..., Any]:
    """Compile the loop that notes the positions of one record's parts."""
    here = "range(at - start, position + 1 - start)"
    note = f"lengths += {here}"
    return compile_loop(
        "measure",
        "compacted",
        begin=(
            "lengths, timestamps, offsets = [], range(0), range(0)",
            "key = key_stop = value = value_code = headers = 0",
        ),
        numbers={
            LENGTH: (note,),
            TIMESTAMP: (f"timestamps = {here}",),
            OFFSET: (f"offsets = {here}",),
            KEY: (note, "key = position + 1 - start"),
            VALUE: (
                note,
                "key_stop, value, value_code = at - start, position + 1 - start, code",
            ),
            HEADERS: (
                note,
                "headers = code",
                f"if code > {2 * _LENGTH_BYTES_MAX}:",
                "    raise Unusual",
            ),
            HEADER_KEY: (note,),
            HEADER_VALUE: (note,),
        },
        null_key="code != 1 or compacted",
        result="lengths, timestamps, offsets, key, key_stop, value, value_code, headers",
    )
