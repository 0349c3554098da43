"""Converts between the old message formats (legacy.py) and record batches: up when a producer of
version 0.10 or earlier sends, or an old log is read; down when a consumer of such a version
fetches.

Up, a set becomes one batch, as in Apache Kafka; records of v0, which have no timestamp, get -1.
Down, a batch becomes a set, or one wrapper with the same codec; headers and control batches are
dropped. Both convert row by row, since every message has its own checksum: some 600,000 a second on
one core.
"""

from collections.abc import Callable, Iterator
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LOGGED_BYTES_MAX,
    BatchHeader,
    CorruptBatch,
    Timestamps,
    body,
    check_crc,
    iter_headers,
    records,
    write_crc,
)
from pk.core.record.build import seal
from pk.core.record.compress import Codec
from pk.core.record.grammar import KEY, OFFSET, TIMESTAMP, VALUE, compile_loop, signed
from pk.core.record.legacy import (
    LOG_APPEND_TIME_BIT,
    OVERHEAD,
    Buffer,
    Row,
    build_set,
    iter_messages,
    message_parts,
    rows_within,
)
from pk.core.record.varint import VARINTS

UPGRADED_BATCH_BYTES: Final = 256 * 1024
"""Single messages of an old log are collected into batches of about this size."""

_LAST_OFFSET_DELTA_AT: Final = 23
_INT32: Final = Struct(">i")
_INT32_MAX: Final = (1 << 31) - 1


def batch_of(
    rows: list[Row],
    codec: Codec = Codec.NONE,
    level: int | None = None,
    *,
    base_offset: int | None = None,
    log_append_time_ms: int | None = None,
) -> tuple[bytearray, Timestamps]:
    """Build one batch of `rows`, at least one. Returns it and the earliest and latest of their
    timestamps.

    Without `base_offset` the records are numbered from 0, as in a producer's batch. With it they
    keep their offsets, which must increase and begin at or after it. Raises
    KafkaError(MESSAGE_TOO_LARGE) if the batch would be too large.
    """
    varints = VARINTS
    parts: list[bytes] = []
    add, base_time = parts.append, rows[0][1]
    offset_delta, last_offset = 0, -1
    for index, (offset, timestamp, key, value) in enumerate(rows):
        if base_offset is None:
            offset_delta = index
        else:
            if offset <= last_offset:
                raise CorruptBatch(f"offset {offset} after {last_offset}")
            last_offset, offset_delta = offset, offset - base_offset
        record = b"".join(
            (
                b"\0",
                varints[timestamp - base_time],
                varints[offset_delta],
                b"\x01" if key is None else varints[len(key)],
                key or b"",
                b"\x01" if value is None else varints[len(value)],
                value or b"",
                b"\0",
            )
        )
        add(varints[len(record)])
        add(record)
    if not 0 <= offset_delta <= _INT32_MAX:
        raise CorruptBatch(f"offsets {base_offset} to {last_offset} in one batch")
    times = [row[1] for row in rows]
    timestamps = Timestamps(min(times), max(times))
    batch = bytearray(HEADER_BYTES)
    batch += b"".join(parts)
    seal(
        batch,
        len(rows),
        base_time,
        timestamps.latest,
        base_offset=base_offset or 0,
        codec=codec,
        level=level,
        log_append_time_ms=log_append_time_ms,
    )
    if offset_delta != len(rows) - 1:
        _INT32.pack_into(batch, _LAST_OFFSET_DELTA_AT, offset_delta)
        write_crc(batch)
    return batch, timestamps


def upgrade(data: Buffer) -> Iterator[tuple[int, bytearray]]:
    """Convert the messages at the start of `data`, a piece of an old log, to batches with the same
    offsets and timestamps. Yields each with the position in `data` after its messages. Each wrapper
    becomes one batch, and single messages are collected.

    Ends before an incomplete message, and where record batches begin. Raises CorruptBatch,
    KafkaError as `legacy.message_records` does, after yielding the batches that precede the error.
    """
    gathered: list[Row] = []
    size = end = 0
    last, stamped = -1, False
    messages = iter_messages(data)
    while True:
        try:
            position, header = next(messages)
            piece = bytes(memoryview(data)[position : position + header.size])
            found, codec = rows_within(piece, header, DECOMPRESSED_BYTES_MAX), header.codec
            if found and found[0][0] <= last:
                raise CorruptBatch(f"offset {found[0][0]} after {last}")
            last = found[-1][0] if found else last
        except StopIteration:
            break
        except KafkaError:
            if gathered:
                yield end, _upgraded(gathered, Codec.NONE, stamped)
            raise
        if gathered and (
            codec != Codec.NONE
            or size + header.size > UPGRADED_BATCH_BYTES
            or found[0][0] - gathered[0][0] > _INT32_MAX
            or header.log_append_time != stamped
            or (stamped and found[0][1] != gathered[0][1])
        ):
            yield end, _upgraded(gathered, Codec.NONE, stamped)
            gathered, size = [], 0
        end, stamped = position + header.size, header.log_append_time
        if codec == Codec.NONE:
            gathered += found
            size += header.size
        elif found:
            yield end, _upgraded(found, codec, stamped)
    if gathered:
        yield end, _upgraded(gathered, Codec.NONE, stamped)


def _upgraded(rows: list[Row], codec: Codec, stamped: bool) -> bytearray:
    times_ms = rows[0][1] if stamped else None
    return batch_of(rows, codec, base_offset=rows[0][0], log_append_time_ms=times_ms)[0]


class DownConverted(NamedTuple):
    """Batches, converted to a message set that can be sent."""

    data: bytes
    next_offset: int
    """The offset after the last batch that was read, even if it had no messages."""


def down_convert(batches: Buffer, magic: int, from_offset: int, bytes_max: int) -> DownConverted:
    """Convert the records at or after `from_offset` to messages of format `magic` (0 or 1).

    `batches` begins with a whole batch and may end within one. The result has at most `bytes_max`
    bytes: the last message may be cut off (old clients expect that), but not the first. The error
    of a batch is raised only if no batch precedes it: CorruptBatch, KafkaError(INVALID_RECORD,
    MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE for zstd).
    """
    parts: list[bytes] = []
    size = first_size = 0
    next_offset = from_offset
    try:
        for position, header in iter_headers(batches):
            if first_size and size >= bytes_max:
                break
            if header.last_offset >= from_offset and not header.is_control and header.count:
                check_crc(batches, position, header)
                with memoryview(batches)[position : position + header.size] as batch:
                    added = _down_convert_batch(batch, header, magic, from_offset, bytes_max - size)
                if not first_size:
                    first_size = sum(map(len, added[:2]))
                elif len(added) == 1 and size + len(added[0]) > bytes_max:
                    break  # no message can be read from a wrapper that is cut off
                parts += added
                size += sum(map(len, added))
            next_offset = max(next_offset, header.next_offset)
    except KafkaError:
        if not size:
            raise
    data = b"".join(parts)
    limit = max(bytes_max, first_size)
    return DownConverted(data[:limit] if len(data) > limit else data, next_offset)


def _down_convert_batch(
    batch: Buffer, header: BatchHeader, magic: int, from_offset: int, bytes_max: int
) -> list[bytes]:
    """Convert `batch` to the parts of its messages: two for each, up to about `bytes_max`, or one
    for a wrapper."""
    codec = header.codec
    if codec == Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Fetch version 10 (KIP-110)"
        )
    rows = _rows(batch, header)
    if header.base_offset < from_offset:
        rows = [row for row in rows if row[0] >= from_offset]
    if not rows:
        return []
    if codec != Codec.NONE:
        return [build_set(rows, magic, codec, log_append_time=header.log_append_time)]
    if header.size + len(rows) * OVERHEAD[magic] > bytes_max:
        rows = _first_rows(rows, magic, bytes_max)
    bit = LOG_APPEND_TIME_BIT if header.log_append_time and magic else 0
    return message_parts(rows, magic, bit)


@cache
def _read_rows() -> Callable[..., tuple[int, int]]:
    """Compile the loop that makes a row of each record. It skips headers, so it is faster than
    `records`."""
    return compile_loop(
        "read_rows",
        "add, base_offset, base_timestamp, append_time",
        numbers={TIMESTAMP: (f"time = {signed()}",), OFFSET: (f"offset = {signed()}",)},
        cuts={KEY: (), VALUE: ()},
        end=(
            "when = base_timestamp + time if append_time is None else append_time",
            "add((base_offset + offset, when, key, value))",
        ),
    )


def _rows(batch: Buffer, header: BatchHeader) -> list[Row]:
    """Return the records of `batch` as rows. Raises what `records` raises."""
    data = bytes(body(batch, header, LOGGED_BYTES_MAX))
    rows: list[Row] = []
    base_offset, base_timestamp, count = header.base_offset, header.base_timestamp, header.count
    append_time = header.max_timestamp if header.log_append_time else None
    if count <= len(data):
        position, index = _read_rows()(
            data, 0, 0, count, rows.append, base_offset, base_timestamp, append_time
        )
        if index == count and position == len(data):
            return rows
    found = records(batch, header, decompressed_bytes_max=LOGGED_BYTES_MAX)
    return [record[:4] for record in found]


def _first_rows(rows: list[Row], magic: int, bytes_max: int) -> list[Row]:
    """Return the first `rows`, up to and including the one that exceeds `bytes_max`."""
    size, overhead = 0, OVERHEAD[magic]
    for count, (_, _, key, value) in enumerate(rows, 1):
        size += overhead + len(key or b"") + len(value or b"")
        if size >= bytes_max:
            return rows[:count]
    return rows
