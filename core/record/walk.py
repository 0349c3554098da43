"""The walk through the records of a producer's batch: every length, delta and count is looked at,
none is believed.

It runs on every produce, so it takes three paths, each deciding only what it is sure of:

- `_alike`: records of one shape (same lengths, as measurements, counters and benchmarks send them)
  lie at a fixed stride. A slice with that stride is one byte of all of them, compared at the speed
  of C: some 20 M records/s.
- `_plain`: records without headers, lengths below 8 kB, one after another: some 2 M records/s.
- `_record`: everything, carefully, and the only place that words a refusal. What the others do not
  recognise, right or wrong, comes here.

All three work on the batch where it lies. Record attributes are unused in format v2 and not looked
at.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.varint import INT_BYTES_MAX, LONG_BYTES_MAX, read_varint

Buffer = bytes | bytearray | memoryview

RECORD_BYTES_MIN: Final = 7
"""A record without key, value or headers: its length and six fields of one byte."""

_NOTHING_LEAST: Final = 1 << 63
_NOTHING_MOST: Final = -(1 << 63)

_ALIKE_MIN: Final = 16
"""Fewer records are not worth the slices."""

_SEARCHED_MIN: Final = 1024
"""A longer column is searched for each value that a byte may have, at the speed of C: several times
as fast as making a set of it."""

_COPIED_STRIDE_MAX: Final = 896
"""Shorter records of which there is but a view are copied once: a slice of bytes with a stride
costs a sixth of one of a memoryview. To copy longer ones would cost more than that saves."""

_ALIKE_GROWTH: Final = 4
_ALIKE_COST: Final = 8
"""A look at a stretch takes about as long as so many records, one by one, or longer."""
_PATIENCE_MAX: Final = 4096
_LENGTH_BYTES_MAX: Final = 32
"""A shape with more length bytes than this (many headers) is left to `_record`."""

# The offset delta of record i is the varint of 2i: its first byte repeats every 64 records, its
# second changes every 64 and repeats every 8192, its third changes every 8192. So a stretch of
# records that crosses neither the change to two bytes (64) nor a multiple of 8192 has its first two
# bytes in these tables and a constant third.
_ONE_BYTE_END: Final = 64
_TWO_BYTES_END: Final = 8192
_THREE_BYTES_END: Final = 8192 * 128
_FIRST: Final = bytes(2 * i for i in range(64))
_FIRST_OF_SEVERAL: Final = bytes(2 * i | 0x80 for i in range(64)) * (8192 // 64 + 1)
_LAST_OF_TWO: Final = b"".join(bytes((i,)) * 64 for i in range(128))
_SECOND_OF_THREE: Final = b"".join(bytes((i | 0x80,)) * 64 for i in range(128))
_CONTINUED: Final = bytes(range(0x80, 0x100))
_EVEN: Final = bytes(range(0, 0x100, 2))


class TooUnlike(Exception):
    """More records than the caller allows do not lie in stretches of one shape."""


class RecordError(KafkaError):
    """INVALID_RECORD on account of one record: `batch_index` is its number in the batch."""

    def __init__(self, batch_index: int, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)
        self.batch_index = batch_index


class NoKey(RecordError):
    """The topic is compacted, and the record has no key. Up to there the batch is well-formed."""

    def __init__(self, batch_index: int) -> None:
        super().__init__(
            batch_index, f"record {batch_index} has no key, and the topic is compacted"
        )


def invalid_record(index: int, what: str) -> RecordError:
    """The error that says what is wrong with record number `index`."""
    return RecordError(index, f"record {index} {what}")


def walk(
    body: Buffer,
    count: int,
    compacted: bool,
    unlike_max: int | None = None,
    *,
    frame: bytearray | None = None,
    at: int = 0,
) -> tuple[int, int]:
    """Least and greatest timestamp delta of the `count` records that fill `body`.

    Where `body` is a view of `frame` that begins at byte `at`, to give these saves a copy.

    Raises RecordError or KafkaError(INVALID_RECORD) where they do not fill it, or are not numbered
    0, 1, 2…; NoKey at the first without a key, where that is `compacted`; TooUnlike where more than
    `unlike_max` must be walked one by one, or lie in too many stretches.
    """
    if count * RECORD_BYTES_MIN > len(body):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records in {len(body)} bytes")
    data = memoryview(body)
    source, start = (body, 0) if frame is None else (frame, at)
    index = position = 0
    least, most = _NOTHING_LEAST, _NOTHING_MOST
    span = patience = _ALIKE_MIN
    all_alike = True  # until a look has shown that they are not
    while index < count:
        longest = min(count, _alike_end(index)) - index
        if longest >= _ALIKE_MIN:
            if unlike_max is not None:
                unlike_max -= _ALIKE_COST
                if unlike_max < 0:
                    raise TooUnlike
            shape = _shape(data, position, compacted)
            if shape is not None:
                left = len(data) - position
                fills = all_alike and left == _bytes_if_alike(shape.stride, index, count)
                alike = longest if fills else min(span, longest)
                size = shape.stride * alike
                found = (
                    _alike(source, start + position, size, shape, index) if size <= left else None
                )
                if found:
                    low, high = found
                    least, most = min(least, low), max(most, high)
                    position, index = position + size, index + alike
                    span, patience = span * _ALIKE_GROWTH, _ALIKE_MIN
                    continue
            all_alike = False
            if span > _ALIKE_MIN:
                span //= _ALIKE_GROWTH
                continue
        until = count if count - index <= patience else index + patience
        if unlike_max is not None:
            unlike_max -= until - index
            if unlike_max < 0:
                raise TooUnlike
        patience += patience if patience < _PATIENCE_MAX else 0
        while index < until:
            position, index, least, most = _plain(
                data, position, index, until, compacted, least, most
            )
            if index < until:
                position, delta = _record(data, position, index, compacted)
                index += 1
                least, most = min(least, delta), max(most, delta)
    if position != len(data):
        left = len(data) - position
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{left} bytes after the last record")
    return least, most


def _plain(
    data: memoryview, position: int, index: int, until: int, compacted: bool, least: int, most: int
) -> tuple[int, int, int, int]:
    """Walks from record `index` up to `until` or the first with a length of more than two bytes, or
    a wrong one.

    Returns position and index where it stands, least and greatest timestamp delta so far.
    """
    last, end, start = -1, len(data), position
    try:
        for index in range(index, until):  # noqa: B020, PLR1704
            start = position
            code = data[position]
            position += 3
            if code < 0x80:
                position -= 1
            elif (high := data[position - 2]) < 0x80:
                code = code & 0x7F | high << 7
            else:
                break
            stop = position - 1 + (code >> 1)
            if code & 1 or stop > end:
                break
            code = data[position]
            if code >= 0x80:
                position += 1
                if (high := data[position]) >= 0x80:
                    break
                code = code & 0x7F | high << 7
            if code != last:
                last, delta = code, (code >> 1) ^ -(code & 1)
                least = min(least, delta)
                most = max(most, delta)
            code, position = index << 1, position + 2
            if code >= 0x80:
                if data[position - 1] != code & 0x7F | 0x80:
                    break
                code, position = code >> 7, position + 1
                if code >= 0x80:
                    if code >= 0x4000 or data[position - 1] != code & 0x7F | 0x80:
                        break
                    code, position = code >> 7, position + 1
            if data[position - 1] != code:
                break
            code = data[position]
            if code >= 0x80:
                position += 1
                if (high := data[position]) >= 0x80:
                    break
                code = code & 0x7F | high << 7
            if code & 1 and (code != 1 or compacted):
                break
            position += 1 + (code >> 1)
            code = data[position]
            if code >= 0x80:
                position += 1
                if (high := data[position]) >= 0x80:
                    break
                code = code & 0x7F | high << 7
            if code & 1 and code != 1:
                break
            position += 1 + (code >> 1)
            code = data[position]
            position = _headers_end(data, position, code) if code else position + 1
            if position != stop:
                break
        else:
            return position, until, least, most
    except IndexError:
        pass
    return start, index, least, most


def _headers_end(data: memoryview, position: int, code: int) -> int:
    """Position after the headers whose zigzag count is `code`; -1 where a length has more than one
    byte or is wrong."""
    if code & 1 or code >= 0x80:
        return -1
    position += 1
    for _ in range(code >> 1):
        code = data[position]
        if code & 1 or code >= 0x80:
            return -1
        position += 1 + (code >> 1)
        code = data[position]
        if code >= 0x80 or (code & 1 and code != 1):
            return -1
        position += 1 + (code >> 1)
    return position


def _alike_end(index: int) -> int:
    """The record before which a stretch that begins with record `index` must end: see the tables
    above."""
    if index < _ONE_BYTE_END:
        return _ONE_BYTE_END
    return (index | 8191) + 1 if index < _THREE_BYTES_END else index


def _bytes_if_alike(stride: int, index: int, count: int) -> int:
    """How many bytes the records from `index` to `count` fill if all are as that one is, of
    `stride` bytes, but for the width of their offset deltas."""
    wider = sum(count - end for end in (_ONE_BYTE_END, _TWO_BYTES_END) if index < end < count)
    return stride * (count - index) + wider


class _Shape(NamedTuple):
    """Where a record has bytes that the walk looks at, counted from its start."""

    lengths: list[int]
    """Of lengths and of the number of headers."""
    timestamps: range
    """Of the timestamp delta."""
    offsets: range
    """Of the offset delta."""
    stride: int
    """The bytes of the record."""


def _alike(
    source: Buffer, start: int, size: int, shape: _Shape, index: int
) -> tuple[int, int] | None:
    """Whether the records that fill `size` bytes from `start`, of which the first is number
    `index`, have the shape of that: the same bytes wherever a length stands.

    Returns least and greatest timestamp delta; None where they differ.
    """
    lengths, timestamps, offsets, stride = shape
    end, count = start + size, size // stride
    if isinstance(source, memoryview) and stride <= _COPIED_STRIDE_MAX:
        source, start, end = source[start:end].tobytes(), 0, size

    def column(at: int) -> bytes | bytearray:
        bytes_of_all = source[start + at : end : stride]
        return bytes(bytes_of_all) if isinstance(bytes_of_all, memoryview) else bytes_of_all

    for at in lengths:
        same = column(at)
        if same != same[:1] * count:
            return None
    if not _numbered([column(at) for at in offsets], index, count):
        return None
    return _extremes([column(at) for at in timestamps])


def _shape(data: memoryview, start: int, compacted: bool) -> _Shape | None:
    """The shape of the record at `start`; None where it is not well-formed (`_record` will say why)
    or has too many lengths."""
    try:
        size, position = read_varint(data, start, INT_BYTES_MAX)
        stop = position + size
        lengths = list(range(position - start))
        at = position + 1
        _, position = read_varint(data, at, LONG_BYTES_MAX)
        timestamps, at = range(at - start, position - start), position
        _, position = read_varint(data, at, INT_BYTES_MAX)
        offsets = range(at - start, position - start)
        position = _measure(data, position, 0 if compacted else -1, start, lengths)
        at = position = _measure(data, position, -1, start, lengths)
        headers, position = read_varint(data, at, INT_BYTES_MAX)
        lengths += range(at - start, position - start)
        if not 0 <= headers <= _LENGTH_BYTES_MAX:
            return None
        for _ in range(headers):
            position = _measure(data, position, 0, start, lengths)
            position = _measure(data, position, -1, start, lengths)
    except (IndexError, KafkaError):
        return None
    if position != stop or len(lengths) > _LENGTH_BYTES_MAX:
        return None
    return _Shape(lengths, timestamps, offsets, stop - start)


def _measure(data: memoryview, position: int, least: int, start: int, lengths: list[int]) -> int:
    """Notes where the length at `position` stands, counted from `start`; the position after what it
    measures."""
    size, after = read_varint(data, position, INT_BYTES_MAX)
    if size < least:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a length of {size}")
    lengths += range(position - start, after - start)
    return after + max(size, 0)


def _numbered(columns: Sequence[bytes | bytearray], index: int, count: int) -> bool:
    """Whether the offset deltas of `count` records, whose bytes stand in `columns`, are `index` and
    those that follow."""
    if index < _ONE_BYTE_END:
        return columns == [_FIRST[index : index + count]]
    low, high = index % 64, index % 8192
    expected = [_FIRST_OF_SEVERAL[low : low + count]]
    if index < _TWO_BYTES_END:
        expected.append(_LAST_OF_TWO[high : high + count])
    else:
        expected += (_SECOND_OF_THREE[high : high + count], bytes((index >> 13,)) * count)
    return columns == expected


def _extremes(columns: Sequence[bytes | bytearray]) -> tuple[int, int] | None:
    """Least and greatest of the varints whose bytes stand in `columns`; None where they differ in
    width."""
    if not columns[-1].isascii() or any(c.translate(None, _CONTINUED) for c in columns[:-1]):
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


def _record(data: memoryview, start: int, index: int, compacted: bool) -> tuple[int, int]:
    """Position after the record at `start`, and its timestamp delta. Raises RecordError."""
    try:
        size, position = read_varint(data, start, INT_BYTES_MAX)
        stop = position + size
        if size < RECORD_BYTES_MIN - 1 or stop > len(data):
            raise invalid_record(index, f"claims {size} bytes, {len(data) - position} are left")
        delta, position = read_varint(data, position + 1, LONG_BYTES_MAX)
        offset_delta, position = read_varint(data, position, INT_BYTES_MAX)
        if offset_delta != index:
            raise invalid_record(index, f"has offset delta {offset_delta}")
        size, position = _skip(data, position, -1, index)
        if size < 0 and compacted:
            raise NoKey(index)
        _, position = _skip(data, position, -1, index)
        headers, position = read_varint(data, position, INT_BYTES_MAX)
        if not 0 <= headers <= stop - position:
            raise invalid_record(index, f"claims {headers} headers")
        for _ in range(headers):
            _, position = _skip(data, position, 0, index)
            _, position = _skip(data, position, -1, index)
    except IndexError:
        raise invalid_record(index, "is cut off") from None
    except RecordError:
        raise
    except KafkaError as e:
        raise invalid_record(index, f"has {e.message}") from None
    if position != stop:
        raise invalid_record(index, f"claims {stop - start} bytes but has {position - start}")
    return stop, delta


def _skip(data: memoryview, position: int, least: int, index: int) -> tuple[int, int]:
    """A length of at least `least` (-1 is null) and the position after that many bytes."""
    size, position = read_varint(data, position, INT_BYTES_MAX)
    if size < least:
        raise invalid_record(index, f"has a length of {size}")
    return size, position + max(size, 0)


def _distinct(column: bytes | bytearray) -> Iterable[int]:
    """The values in a column of ASCII."""
    if len(column) < _SEARCHED_MIN:
        return set(column)
    return [code for code in range(0x80) if code in column]
