"""Compacts a single batch: selects the records to keep, and builds the batch without the others.

A batch keeps its base offset, its last offset, its sequences and its leader epoch, whichever
records are removed: offsets never change, and a producer's state can still be read from the
headers. Kept records are copied as bytes, since the base of their deltas stays the same. They are
rewritten only when the batch gets its *delete horizon*, the time from which its tombstones may be
removed. The horizon replaces the base timestamp (KIP-534), to which the timestamp deltas are
relative.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    CODEC_BITS,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOGGED_BYTES_MAX,
    BatchHeader,
    body,
    write_crc,
)
from pk.core.record.compress import compress
from pk.core.record.varint import INT_BYTES_MAX, LONG_BYTES_MAX, VARINTS, read_varint
from pk.core.values import new_tuple

_ATTRIBUTES: Final = Struct(">h")

NO_TIMESTAMP: Final = -1


class Entry(NamedTuple):
    """A record's position in its batch's body, and the data that compaction needs."""

    start: int
    stop: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def entries(data: bytes, count: int) -> list[Entry]:
    """Parse the `count` records that fill `data`. Raises KafkaError(INVALID_RECORD)."""
    found: list[Entry] = []
    position = 0
    new = new_tuple
    try:
        for _ in range(count):
            start = position
            size = data[position]
            if size < 0x80:
                size, position = (size >> 1) ^ -(size & 1), position + 1
            else:
                size, position = read_varint(data, position, INT_BYTES_MAX)
            stop = position + size
            position += 1
            while data[position] > 0x7F:
                position += 1
            position += 1
            delta = data[position]
            if delta < 0x80:
                delta, position = delta >> 1, position + 1
            else:
                delta, position = read_varint(data, position, INT_BYTES_MAX)
            size = data[position]
            if size < 0x80:
                size, position = (size >> 1) ^ -(size & 1), position + 1
            else:
                size, position = read_varint(data, position, INT_BYTES_MAX)
            key = None
            if size >= 0:
                key = data[position : position + size]
                position += size
            # Every length but -1 begins with an even byte, or has several bytes: only null is a
            # single 1.
            found.append(new(Entry, (start, stop, delta, key, data[position] != 1)))
            if position >= stop:
                raise _malformed()
            position = stop
    except IndexError:
        raise _malformed() from None
    if position != len(data):
        raise _malformed()
    return found


def filtered(
    batch: bytes,
    header: BatchHeader,
    choose: Callable[[list[Entry]], list[Entry]],
    horizon_ms: int,
    marks_horizon: bool,
) -> tuple[bytes | bytearray | None, int]:
    """Build the batch with only the records that `choose` selects. Returns it and the number of its
    records; None if there are none.

    `horizon_ms` becomes the batch's delete horizon if it has none yet and either a tombstone is
    kept, or `marks_horizon` is set (for a transaction marker that may be removed later). Raises the
    errors of `body`, and KafkaError(INVALID_RECORD).
    """
    data = bytes(body(batch, header, LOGGED_BYTES_MAX))
    there = entries(data, header.count)
    kept = choose(there)
    if not kept:
        return None, 0
    has_horizon = header.attributes & DELETE_HORIZON_BIT
    if not has_horizon and (marks_horizon or any(not entry.has_value for entry in kept)):
        return _with_horizon(data, header, kept, horizon_ms), len(kept)
    if len(kept) == len(there):
        return batch, len(kept)
    records = b"".join([data[start:stop] for start, stop, *_ in kept])
    return _sealed(header, records, kept, _latest(data, header, kept)), len(kept)


def emptied(header: BatchHeader) -> bytearray:
    """Build the batch without its records. It is kept for the producer's data in its header."""
    batch = bytearray(HEADER_BYTES)
    attributes = header.attributes & ~(CODEC_BITS | DELETE_HORIZON_BIT)
    _pack(batch, header, attributes, NO_TIMESTAMP, header.max_timestamp, 0)
    return batch


def _latest(data: bytes, header: BatchHeader, kept: Iterable[Entry]) -> int:
    if header.log_append_time:
        return header.max_timestamp
    return header.base_timestamp + max(_timestamp(data, entry.start)[0] for entry in kept)


def _timestamp(data: bytes, start: int) -> tuple[int, int, int]:
    """Read a record's timestamp delta. Returns it with its start and end."""
    _, position = read_varint(data, start, INT_BYTES_MAX)
    delta, end = read_varint(data, position + 1, LONG_BYTES_MAX)
    return delta, position + 1, end


def _with_horizon(
    data: bytes, header: BatchHeader, kept: list[Entry], horizon_ms: int
) -> bytearray:
    shift = header.base_timestamp - horizon_ms
    out: list[bytes] = []
    latest = header.max_timestamp if header.log_append_time else -(1 << 63)
    for start, stop, *_ in kept:
        delta, begin, end = _timestamp(data, start)
        if not header.log_append_time:
            latest = max(latest, header.base_timestamp + delta)
        stamp = VARINTS[delta + shift]
        rest = data[end:stop]
        out += (VARINTS[1 + len(stamp) + len(rest)], data[begin - 1 : begin], stamp, rest)
    marked = header._replace(
        attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon_ms
    )
    return _sealed(marked, b"".join(out), kept, latest)


def _sealed(header: BatchHeader, records: bytes, kept: list[Entry], latest: int) -> bytearray:
    packed = compress(header.codec, records) if header.attributes & CODEC_BITS else records
    batch = bytearray(HEADER_BYTES) + packed
    _pack(batch, header, header.attributes, header.base_timestamp, latest, len(kept))
    return batch


def _pack(
    batch: bytearray, header: BatchHeader, attributes: int, base_ms: int, latest: int, count: int
) -> None:
    HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        len(batch) - LENGTH_END,
        header.leader_epoch,
        header.magic,
        0,
        attributes,
        header.last_offset_delta,
        base_ms,
        latest,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    write_crc(batch)


def _malformed() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, "a record whose lengths do not add up")
