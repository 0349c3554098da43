"""The values of a fetched batch, for readers of millions of records that need nothing else.

Values are read on two paths, as the broker walks a producer's batch (walk.py): a stretch of records
of one shape is split at a fixed stride, at the speed of C (uniform.py), and other records are read
by a loop compiled from the grammar. If the loop does not understand a record, `record_list` reads
the whole batch, or raises the error.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Final

from pk.core.record.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, Buffer, body, record_list
from pk.core.record.grammar import VALUE, compile_loop
from pk.core.record.uniform import (
    BACKOFF_MAX,
    UNIFORM_MIN,
    Columns,
    are_of_one_width,
    shape_of,
)

_GROWTH: Final = 8


def values(
    batch_buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[bytes | None]:
    """Return the value of every record of the batch at the start of `batch_buffer`. Raises what
    `records` raises."""
    found = _values(bytes(body(batch_buffer, header, bytes_max)), header.count)
    if found is None:
        return [record.value for record in record_list(batch_buffer, header, bytes_max)]
    return found


def _values(data: bytes, count: int) -> list[bytes | None] | None:
    """Return the values of the `count` records that fill `data`; None if one of them is unusual."""
    out: list[bytes | None] = []
    if count > len(data):
        return None
    position, stretch, backoff = 0, UNIFORM_MIN, UNIFORM_MIN
    read = _read()
    while (left := count - len(out)) > 0:
        if left >= UNIFORM_MIN:
            many = min(stretch, left)
            if stop := _read_uniform(data, position, many, out):
                position, stretch, backoff = stop, stretch * _GROWTH, UNIFORM_MIN
                continue
            if stretch > UNIFORM_MIN:
                stretch = max(min(stretch, left) // _GROWTH, UNIFORM_MIN)
                continue
        until = min(backoff, left)
        position, index = read(data, position, 0, until, out.append)
        if index < until:
            return None
        backoff = min(backoff * 2, BACKOFF_MAX)
    return out if position == len(data) else None


@cache
def _read() -> Callable[..., tuple[int, int]]:
    """Compile the loop that reads the value of each record."""
    return compile_loop("read_values", "add", cuts={VALUE: ("add(value)",)})


def _read_uniform(data: bytes, position: int, many: int, out: list[bytes | None]) -> int:
    """Append the values of `many` records if they have one shape. Returns the position after
    them, or 0."""
    shape = shape_of(data, position)
    if shape is None or shape.stride * many > len(data) - position:
        return 0
    size = shape.stride * many
    columns = Columns(data, position, size, shape)
    if not columns.are_same(shape.lengths) or not all(
        are_of_one_width([columns.at(at) for at in number])
        for number in (shape.timestamps, shape.offsets)
    ):
        return 0
    end = position + size
    if shape.value_bytes < 0:
        out += [None] * many
        return end
    after = shape.stride - shape.value - shape.value_bytes
    cut = struct.iter_unpack(
        f"{shape.value}x{shape.value_bytes}s{after}x", memoryview(data)[position:end]
    )
    out += [value for (value,) in cut]
    return end
