"""Walks through the records of a producer's batch, and checks every length, delta and count.

It runs for every produced batch, so it has three paths, each of which decides only about records
that it understands:

- `_check_uniform`: records of one shape (uniform.py): some 20 M records/s.
- `_check`: records one after another, by a loop compiled from the grammar: some 2 M records/s.
- `parse_record`: any record, slowly. It decides about the records that the others do not
  understand, and raises the error if one is invalid.

All three work on the batch in place.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.grammar import (
    OFFSET,
    RECORD_BYTES_MIN,
    TIMESTAMP,
    RecordError,
    compile_loop,
    invalid_record,
    parse_record,
    signed,
)
from pk.core.record.uniform import (
    BACKOFF_MAX,
    UNIFORM_MIN,
    Buffer,
    Column,
    Columns,
    Shape,
    are_of_one_width,
    shape_of,
)
from pk.core.record.varint import LONG_BYTES_MAX, read_varint

_NO_MINIMUM: Final = 1 << 63
_NO_MAXIMUM: Final = -(1 << 63)

_SEARCHED_MIN: Final = 1024
"""A column of at least this length is searched for each value that a byte may have, at the speed of
C, which is several times as fast as making a set of it."""

_GROWTH: Final = 4
_SEARCH_COST: Final = 8
"""The cost of searching for a stretch, as a number of records that are checked one by one. The
search takes at least as long."""

# The offset delta of record i is the varint of 2i. Its first byte repeats every 64 records, its
# second byte changes every 64 and repeats every 8192, and its third byte changes every 8192. So if
# a stretch of records crosses neither the change to two bytes (64) nor a multiple of 8192, its
# first two bytes are in these tables, and its third byte is constant.
_ONE_BYTE_END: Final = 64
_TWO_BYTES_END: Final = 8192
_THREE_BYTES_END: Final = 8192 * 128
_FIRST: Final = bytes(2 * i for i in range(64))
_FIRST_OF_SEVERAL: Final = bytes(2 * i | 0x80 for i in range(64)) * (8192 // 64 + 1)
_LAST_OF_TWO: Final = b"".join(bytes((i,)) * 64 for i in range(128))
_SECOND_OF_THREE: Final = b"".join(bytes((i | 0x80,)) * 64 for i in range(128))
_EVEN: Final = bytes(range(0, 0x100, 2))


class NotUniform(Exception):
    """More records than the caller allows are outside stretches of one shape."""


class NoKey(RecordError):
    """The topic is compacted, and the record has no key. The batch is well-formed up to this
    record."""

    def __init__(self, batch_index: int) -> None:
        super().__init__(
            batch_index, f"record {batch_index} has no key, and the topic is compacted"
        )


def walk(
    body: Buffer,
    count: int,
    compacted: bool,
    singles_max: int | None = None,
    *,
    frame: bytearray | None = None,
    at: int = 0,
) -> tuple[int, int]:
    """Check the `count` records that fill `body`. Returns their least and greatest timestamp delta.

    If `body` is a view of `frame` that begins at byte `at`, passing these saves a copy.

    Raises RecordError or KafkaError(INVALID_RECORD) unless they fill `body` and are numbered 0, 1,
    2…; NoKey at the first record without a key, if the topic is `compacted`; NotUniform if more
    than `singles_max` must be walked one by one, or they are in too many stretches.
    """
    if count * RECORD_BYTES_MIN > len(body):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records in {len(body)} bytes")
    data = memoryview(body)
    source, start = (body, 0) if frame is None else (frame, at)
    index = position = 0
    least, most = _NO_MINIMUM, _NO_MAXIMUM
    stretch = backoff = UNIFORM_MIN
    all_uniform = True  # until a search has shown that they are not
    check = _check()
    while index < count:
        longest = min(count, _stretch_end(index)) - index
        if longest >= UNIFORM_MIN:
            if singles_max is not None:
                singles_max -= _SEARCH_COST
                if singles_max < 0:
                    raise NotUniform
            shape = shape_of(data, position, compacted)
            if shape is not None:
                left = len(data) - position
                fills = all_uniform and left == _bytes_if_uniform(shape.stride, index, count)
                size = shape.stride * (longest if fills else min(stretch, longest))
                found = None
                if size <= left:
                    found = _check_uniform(
                        Columns(source, start + position, size, shape), shape, index
                    )
                if found:
                    low, high = found
                    least, most = min(least, low), max(most, high)
                    position, index = position + size, index + size // shape.stride
                    stretch, backoff = stretch * _GROWTH, UNIFORM_MIN
                    continue
            all_uniform = False
            if stretch > UNIFORM_MIN:
                stretch //= _GROWTH
                continue
        until = count if count - index <= backoff else index + backoff
        if singles_max is not None:
            singles_max -= until - index
            if singles_max < 0:
                raise NotUniform
        backoff += backoff if backoff < BACKOFF_MAX else 0
        while index < until:
            position, index, least, most = check(
                data, position, index, until, compacted, least, most
            )
            if index < until:
                position, delta = _check_one(data, position, index, compacted)
                index += 1
                least, most = min(least, delta), max(most, delta)
    if position != len(data):
        left = len(data) - position
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{left} bytes after the last record")
    return least, most


@cache
def _check() -> Callable[..., tuple[int, int, int, int]]:
    """Compile the loop that checks records one after another, and keeps the least and greatest
    timestamp delta."""
    return compile_loop(
        "check",
        "compacted, least, most",
        begin=("last = -1",),
        numbers={
            TIMESTAMP: (
                "if code != last:",
                "    last = code",
                f"    delta = {signed()}",
                "    if delta < least:",
                "        least = delta",
                "    if delta > most:",
                "        most = delta",
            ),
            OFFSET: ("if code != index << 1:", "    raise Unusual"),
        },
        null_key="code != 1 or compacted",
        result="least, most",
    )


def _check_one(data: memoryview, start: int, index: int, compacted: bool) -> tuple[int, int]:
    """Check the record at `start`. Returns the position after it, and its timestamp delta. Raises
    RecordError."""
    record = parse_record(data, start, index)
    if record.offset != index:
        raise invalid_record(index, f"has offset delta {record.offset}")
    if compacted and record.key.number < 0:
        raise NoKey(index)
    return record.stop, record.timestamp


def _stretch_end(index: int) -> int:
    """Return the number of the record before which a stretch that begins with record `index` must
    end, because of the tables above."""
    if index < _ONE_BYTE_END:
        return _ONE_BYTE_END
    return (index | 8191) + 1 if index < _THREE_BYTES_END else index


def _bytes_if_uniform(stride: int, index: int, count: int) -> int:
    """Return how many bytes the records from `index` to `count` fill if all of them are like record
    `index`, of `stride` bytes, except for the width of their offset deltas."""
    wider = sum(count - end for end in (_ONE_BYTE_END, _TWO_BYTES_END) if index < end < count)
    return stride * (count - index) + wider


def _check_uniform(columns: Columns, shape: Shape, index: int) -> tuple[int, int] | None:
    """Check the records in `columns`, the first of which is number `index`. Returns their least and
    greatest timestamp delta, or None unless all have the shape of the first: the same bytes of
    every length."""
    if not columns.are_same(shape.lengths):
        return None
    if not _numbered([columns.at(at) for at in shape.offsets], index, columns.count):
        return None
    return _extremes([columns.at(at) for at in shape.timestamps])


def _numbered(columns: Sequence[Column], index: int, count: int) -> bool:
    """Return whether the offset deltas of `count` records, whose bytes are in `columns`, are
    `index` and the following numbers."""
    if index < _ONE_BYTE_END:
        return columns == [_FIRST[index : index + count]]
    low, high = index % 64, index % 8192
    expected = [_FIRST_OF_SEVERAL[low : low + count]]
    if index < _TWO_BYTES_END:
        expected.append(_LAST_OF_TWO[high : high + count])
    else:
        expected += (_SECOND_OF_THREE[high : high + count], bytes((index >> 13,)) * count)
    return columns == expected


def _extremes(columns: list[Column]) -> tuple[int, int] | None:
    """Return the least and greatest of the varints whose bytes are in `columns`; None if they
    differ in width."""
    if not are_of_one_width(columns):
        return None
    if len(columns) == 1:
        deltas = [(code >> 1) ^ -(code & 1) for code in _distinct(columns[0])]
        return min(deltas), max(deltas)
    codes: set[tuple[int, ...]] | tuple[tuple[int, ...], ...]
    if all(c == c[:1] * len(c) for c in columns):
        codes = (tuple(c[0] for c in reversed(columns)),)
    else:
        codes = set(zip(*reversed(columns), strict=True))
        if not columns[0].translate(None, _EVEN):
            codes = min(codes), max(codes)
    deltas = [read_varint(bytes(reversed(code)), 0, LONG_BYTES_MAX)[0] for code in codes]
    return min(deltas), max(deltas)


def _distinct(column: Column) -> Iterable[int]:
    """Return the values in a column of ASCII."""
    if len(column) < _SEARCHED_MIN:
        return set(column)
    return [code for code in range(0x80) if code in column]
