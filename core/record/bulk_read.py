"""The records of a fetched batch for who reads millions of them: slices of its bytes, without a
call or an object each.

`records` of `pk.core.record.batch` is the reader that words every refusal. What is here knows the
usual record only: lengths below 8 kB and no headers. What it does not recognise, right or wrong, it
leaves to that reader, for the whole batch; so it decides nothing that the other does not.

Values alone are taken on two paths, as the broker walks a producer's batch (`pk.core.record.walk`):
`_alike` cuts a stretch of records of one shape at a fixed stride, having seen that every length in
it is the same, at the speed of C; `_plain` goes from record to record.
"""

import struct
from typing import Final, NamedTuple

from pk.core.errors import KafkaError
from pk.core.record.batch import (
    DECOMPRESSED_BYTES_MAX,
    BatchHeader,
    Buffer,
    Record,
    body,
    records,
)
from pk.core.record.varint import INT_BYTES_MAX, LONG_BYTES_MAX, read_varint
from pk.core.values import new_tuple

_new = new_tuple

_ALIKE_MIN: Final = 16
"""Fewer records are not worth the slices."""

_ALIKE_GROWTH: Final = 8
_PATIENCE_MAX: Final = 4096
_CONTINUED_MAX: Final = 4
"""More bytes of time and offset than two each and their last: left to `_plain`."""

_CONTINUED: Final = bytes(range(0x80, 0x100))


def values(
    batch_buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[bytes | None]:
    """The value of every record of the batch at the start of `batch_buffer`. Raises what `records`
    raises."""
    found = _values(bytes(body(batch_buffer, header, bytes_max)), header.count)
    if found is None:
        return [r.value for r in records(batch_buffer, header, decompressed_bytes_max=bytes_max)]
    return found


def record_list(
    batch_buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """As `list(records(…))`, and quicker where records have no headers. Raises what `records`
    raises."""
    found = _plain_records(bytes(body(batch_buffer, header, bytes_max)), header)
    if found is None:
        return list(records(batch_buffer, header, decompressed_bytes_max=bytes_max))
    return found


def _values(data: bytes, count: int) -> list[bytes | None] | None:
    """The values of records that fill `data`; None where one is not of the usual kind."""
    out: list[bytes | None] = []
    if count > len(data):
        return None
    position, span, patience = 0, _ALIKE_MIN, _ALIKE_MIN
    try:
        while (left := count - len(out)) > 0:
            if left >= _ALIKE_MIN:
                many = min(span, left)
                if stop := _alike(data, position, many, out):
                    position, span, patience = stop, span * _ALIKE_GROWTH, _ALIKE_MIN
                    continue
                if span > _ALIKE_MIN:
                    span = max(min(span, left) // _ALIKE_GROWTH, _ALIKE_MIN)
                    continue
            position = _plain(data, position, min(patience, left), out)
            if not position:
                return None
            patience = min(patience * 2, _PATIENCE_MAX)
    except (IndexError, KafkaError):
        return None
    return out if position == len(data) else None


class _Shape(NamedTuple):
    """Where the parts of a record are: positions are counted from its start."""

    stride: int
    same: list[int]
    """Bytes of lengths, and of the number of headers: the same in all records of the shape."""

    continued: list[int]
    """Bytes of time and offset that another follows."""

    last: list[int]
    """The last bytes of both."""

    start: int
    size: int
    """The value; size -1 where it is null."""


def _shape(data: bytes, position: int) -> _Shape | None:
    """The shape of the record at `position`; None where it is not of the usual kind."""
    same: list[int] = []
    continued: list[int] = []
    last: list[int] = []
    at = position

    def length() -> int:
        nonlocal at
        start = at
        code, at = read_varint(data, at, INT_BYTES_MAX)
        same.extend(range(start - position, at - position))
        return code

    size = length()
    stop = at + size
    at += 1
    for _ in range(2):  # time and offset
        while data[at] >= 0x80:
            continued.append(at - position)
            at += 1
        last.append(at - position)
        at += 1
    key_size = length()
    at += max(key_size, 0)
    size = length()
    start = at - position
    at += max(size, 0)
    same.append(at - position)
    if len(continued) > _CONTINUED_MAX or size < -1 or data[at] or at + 1 != stop:
        return None
    return _Shape(stop - position, same, continued, last, start, size)


def _alike(data: bytes, position: int, many: int, out: list[bytes | None]) -> int:
    """Appends the values of `many` records if they are of one shape; where they end, or 0. Raises
    IndexError, KafkaError."""
    shape = _shape(data, position)
    if shape is None:
        return 0
    stride, end = shape.stride, position + many * shape.stride
    if end > len(data):
        return 0
    for at in shape.same:
        if data[position + at : end : stride].count(data[position + at]) != many:
            return 0
    for at in shape.last:
        if not data[position + at : end : stride].isascii():
            return 0
    for at in shape.continued:
        if data[position + at : end : stride].translate(None, _CONTINUED):
            return 0
    if shape.size < 0:
        out += [None] * many
        return end
    form = f"{shape.start}x{shape.size}s{stride - shape.start - shape.size}x"
    cut = struct.iter_unpack(form, memoryview(data)[position:end])
    out += [value for (value,) in cut]
    return end


def _plain(data: bytes, position: int, many: int, out: list[bytes | None]) -> int:
    """Appends the values of `many` records; where they end, or 0 where one is not of the usual
    kind.

    Raises IndexError, KafkaError.
    """
    add = out.append
    for _ in range(many):
        code = data[position]
        if code >= 0x80:
            position += 1
            high = data[position]
            if high >= 0x80:
                return 0
            code = code & 0x7F | high << 7
        position += 1
        if code & 1:
            return 0
        stop = position + (code >> 1)
        position += 2
        if data[position - 1] >= 0x80:  # the time
            if data[position] >= 0x80:
                _, position = read_varint(data, position - 1, LONG_BYTES_MAX)
            else:
                position += 1
        if data[position] >= 0x80:  # the offset
            if data[position + 1] >= 0x80:
                _, position = read_varint(data, position, INT_BYTES_MAX)
            else:
                position += 2
        else:
            position += 1
        code = data[position]
        position += 1
        if code != 1:  # the key
            if code >= 0x80:
                high = data[position]
                if high >= 0x80:
                    return 0
                code = code & 0x7F | high << 7
                position += 1
            if code & 1:
                return 0
            position += code >> 1
        code = data[position]
        position += 1
        if code >= 0x80:
            high = data[position]
            if high >= 0x80:
                return 0
            code = code & 0x7F | high << 7
            position += 1
        if code & 1:
            if code != 1:
                return 0
            add(None)
        else:
            add(data[position : (position := position + (code >> 1))])
        if data[position] or position + 1 != stop:  # headers, or something is wrong
            return 0
        position = stop
    return position


def _plain_records(data: bytes, header: BatchHeader) -> list[Record] | None:
    """The records that fill `data`; None where one is not of the usual kind.

    Every number is read in place, key and value alike: two calls a record would eat a good part of
    what this saves.
    """
    count, base_offset, base_timestamp = header.count, header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.log_append_time else None
    out: list[Record] = []
    add, new, position, odd = out.append, _new, 0, count > len(data)
    try:
        for _ in range(0 if odd else count):
            code = data[position]
            position += 2
            if code >= 0x80:
                if (high := data[position - 1]) >= 0x80:
                    return None
                code = code & 0x7F | high << 7
                position += 1
            stop = position - 1 + (code >> 1)
            odd |= code
            code = data[position]
            if code < 0x80:
                time, position = (code >> 1) ^ -(code & 1), position + 1
            elif (high := data[position + 1]) < 0x80:
                code = code & 0x7F | high << 7
                time, position = (code >> 1) ^ -(code & 1), position + 2
            else:
                time, position = read_varint(data, position, LONG_BYTES_MAX)
            code = data[position]
            if code < 0x80:
                offset, position = (code >> 1) ^ -(code & 1), position + 1
            elif (high := data[position + 1]) < 0x80:
                code = code & 0x7F | high << 7
                offset, position = (code >> 1) ^ -(code & 1), position + 2
            else:
                offset, position = read_varint(data, position, INT_BYTES_MAX)
            code = data[position]
            position += 1
            if code >= 0x80:
                if (high := data[position]) >= 0x80:
                    return None
                code = code & 0x7F | high << 7
                position += 1
            if code == 1:
                key = None
            else:
                odd |= code
                key = data[position : (position := position + (code >> 1))]
            code = data[position]
            position += 1
            if code >= 0x80:
                if (high := data[position]) >= 0x80:
                    return None
                code = code & 0x7F | high << 7
                position += 1
            if code == 1:
                value = None
            else:
                odd |= code
                value = data[position : (position := position + (code >> 1))]
            if data[position] or position + 1 != stop:
                return None
            position = stop
            when = base_timestamp + time if append_time is None else append_time
            add(new(Record, (base_offset + offset, when, key, value, ())))
    except (IndexError, KafkaError):
        return None
    return out if position == len(data) and not odd & 1 else None
