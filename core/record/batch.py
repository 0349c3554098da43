"""The record batch, format v2 (magic 2; KIP-98), as it is sent, stored and fetched.

```
 0 base offset        int64     outside the CRC, so that a broker may set them in place:
 8 length             int32       (bytes after this field)
12 leader epoch       int32
16 magic              int8
17 CRC                uint32    CRC-32C of all that follows
21 attributes         int16     codec (3 bits), log append time, transactional, control, horizon
23 last offset delta  int32
27 base timestamp     int64     milliseconds since 1970, or the delete horizon
35 max timestamp      int64
43 producer id        int64     -1: neither idempotent nor transactional
51 producer epoch     int16
53 base sequence      int32
57 count              int32
61 records, one after another, compressed together if there is a codec; a record is

   length varint, attributes int8, timestamp delta varlong, offset delta varint,
   key (varint length, -1 null), value (the same), headers (varint count; each: key, value)
```

A broker reads only headers. It reads the records once, when a producer sends them (validation.py).
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.compress import Codec, decompress
from pk.core.record.crc import crc32c
from pk.core.record.grammar import (
    HEADER_KEY,
    HEADER_VALUE,
    HEADERS,
    KEY,
    OFFSET,
    TIMESTAMP,
    VALUE,
    Part,
    compile_loop,
    parse_record,
    signed,
)
from pk.core.values import new_tuple

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
LENGTH_END: Final = 12
"""The number of bytes up to and including the length field, which counts the bytes after it."""

MAGIC: Final = 2
SEQUENCES: Final = 1 << 31
"""Sequence numbers wrap from 2³¹ - 1 to 0."""

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""The limit in bytes for decompressed records, unless the caller gives another one. A broker's
limit is `pk.decompressed.bytes.max`."""
LOGGED_BYTES_MAX: Final = (1 << 31) - 1
"""The limit for decompressed records of batches in a log. The broker may have had another limit
when it accepted them."""

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 1 << 3
TRANSACTIONAL_BIT: Final = 1 << 4
CONTROL_BIT: Final = 1 << 5
DELETE_HORIZON_BIT: Final = 1 << 6

HEADER: Final = Struct(">qiibIhiqqqhii")
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 21
_ATTRIBUTES: Final = Struct(">h")
_LEADER_EPOCH: Final = Struct(">i")
_LEADER_EPOCH_AT: Final = 12
_INT64: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35
_LENGTH: Final = Struct(">i")
_OFFSET_LENGTH_EPOCH: Final = Struct(">qii")
_unpack_header = HEADER.unpack_from


class CorruptBatch(KafkaError):
    """The bytes are not a batch of format v2, or their CRC is wrong (CORRUPT_MESSAGE)."""

    def __init__(self, message: str, code: int = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(code, message)


class TimestampType(IntEnum):
    """The clock that set a batch's timestamps: the producer's, or the broker's at the time of the
    append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of a batch. `size` is the size of the whole batch in bytes, with the first
    twelve."""

    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def codec(self) -> Codec:
        """The compression of the records. Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE)."""
        return Codec.from_attributes(self.attributes)

    @property
    def is_control(self) -> bool:
        """Whether the batch has control records (the end of a transaction, a leader change) instead
        of data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def log_append_time(self) -> bool:
        """Whether `max_timestamp`, the broker's time of append, is the timestamp of every
        record."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def timestamp_type(self) -> TimestampType:
        """The clock that set the timestamps."""
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which the log cleaner may remove the batch's tombstones, if it has set one
        (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_offset(self) -> int:
        """The offset of the last record that the batch had when it was written. Compaction does not
        change it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or -1 without an idempotent producer."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) % SEQUENCES


class Record(NamedTuple):
    """One record, with a copy of its key and value. `timestamp` is in ms since 1970, or -1."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Timestamps(NamedTuple):
    """The earliest and latest timestamp among the records of a batch."""

    earliest: int
    latest: int


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch at `position`, which must be complete. Raises CorruptBatch:
    CORRUPT_MESSAGE if the batch is cut off, too small or of an unknown magic;
    UNSUPPORTED_FOR_MESSAGE_FORMAT for the formats v0 and v1."""
    left = len(buffer) - position
    if left < HEADER_BYTES:
        raise _short(buffer, position)
    fields = _unpack_header(buffer, position)
    if fields[3] != MAGIC:
        raise _wrong_magic(fields[3])
    size = fields[1] + LENGTH_END
    if not HEADER_BYTES <= size <= left:
        raise CorruptBatch(f"a batch claims {size} bytes, {left} are there")
    return new_tuple(BatchHeader, (fields[0], size) + fields[2:])


def _wrong_magic(magic: int) -> CorruptBatch:
    if magic in (0, 1):
        return CorruptBatch(
            f"message format v{magic} is older than record batches",
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        )
    return CorruptBatch(f"there is no message format v{magic}")


def _short(buffer: Buffer, position: int) -> CorruptBatch:
    """Return the error for a header that is cut off. Old messages, which may be shorter, get their
    own error."""
    if len(buffer) - position > 16 and buffer[position + MAGIC_AT] in (0, 1):
        return _wrong_magic(buffer[position + 16])
    return CorruptBatch(f"a batch header cut off after {max(len(buffer) - position, 0)} bytes")


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise CorruptBatch unless the batch at `position` matches the CRC in its header."""
    actual = crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : position + header.size])
    if actual != header.crc:
        raise CorruptBatch(f"CRC is {actual:08x}, the batch says {header.crc:08x}")


crc_of = crc32c
"""Compute the CRC-32C of bytes. A second argument is the CRC of the bytes before them."""


def iter_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch in `buffer`. Stops before an incomplete batch at
    the end. Raises CorruptBatch like `read_header`, except for an incomplete batch."""
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        length = _LENGTH.unpack_from(buffer, position + 8)[0]
        if length > end - position - LENGTH_END and buffer[position + MAGIC_AT] == MAGIC:
            return
        header = read_header(buffer, position)
        yield position, header
        position += header.size
    if end - position > 16 and buffer[position + MAGIC_AT] != MAGIC:
        raise _short(buffer, position)


def assign(
    buffer: bytearray | memoryview,
    position: int,
    base_offset: int,
    leader_epoch: int,
    log_append_time_ms: int | None = None,
    *,
    max_timestamp: int | None = None,
) -> None:
    """Set the offset and leader epoch of the batch at `position`, which a log assigns, and its
    times if they are given.

    `log_append_time_ms` stamps every record (topics with `message.timestamp.type=LogAppendTime`);
    `max_timestamp` corrects the one that the producer set. The CRC is recomputed only if one of
    these changes the header.
    """
    _INT64.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)
    if log_append_time_ms is None and max_timestamp is None:
        return
    attributes = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_AT)[0]
    if log_append_time_ms is not None:
        wanted, timestamp = attributes | LOG_APPEND_TIME_BIT, log_append_time_ms
    else:
        wanted, timestamp = attributes & ~LOG_APPEND_TIME_BIT, max_timestamp
    if (wanted, timestamp) != (
        attributes,
        _INT64.unpack_from(buffer, position + _MAX_TIMESTAMP_AT)[0],
    ):
        _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_AT, wanted)
        _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_AT, timestamp)
        write_crc(buffer, position)


def assign_one(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set the offset and leader epoch of the only batch in `batch`. Faster than `assign`."""
    _OFFSET_LENGTH_EPOCH.pack_into(batch, 0, base_offset, len(batch) - LENGTH_END, leader_epoch)


def write_crc(buffer: bytearray | memoryview, position: int = 0) -> None:
    """Compute and set the CRC of the batch at `position`, whose other fields are set."""
    end = position + LENGTH_END + _LENGTH.unpack_from(buffer, position + 8)[0]
    crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : end])
    _CRC.pack_into(buffer, position + _CRC_AT, crc)


def body(
    batch_buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Buffer:
    """Return the decompressed records of the batch at the start of `batch_buffer`, or a view of
    them if they are not compressed.

    Raises KafkaError: UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD, MESSAGE_TOO_LARGE (beyond
    `bytes_max`).
    """
    data = memoryview(batch_buffer)[HEADER_BYTES : header.size]
    if not header.attributes & CODEC_BITS:
        return data
    return decompress(header.codec, data, bytes_max)


def records(
    batch_buffer: Buffer,
    header: BatchHeader | None = None,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[Record]:
    """Iterate over the records of the batch at the start of `batch_buffer`. Those of a control
    batch are its control records.

    Raises CorruptBatch for the header, what `body` raises, and KafkaError(INVALID_RECORD) at a
    malformed record.
    """
    if header is None:
        header = read_header(batch_buffer)
    data = bytes(body(batch_buffer, header, decompressed_bytes_max))
    found: list[Record] = []
    try:
        _read_records(data, header, found)
    except KafkaError as e:
        return _then_raise(found, e)
    return iter(found)


def _then_raise(found: list[Record], error: KafkaError) -> Iterator[Record]:
    """Yield the records before the malformed one, then raise its error."""
    yield from found
    raise error


def record_list(
    batch_buffer: Buffer, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """Return the same as `list(records(…))`, a little faster. Raises what `records` raises."""
    found: list[Record] = []
    _read_records(bytes(body(batch_buffer, header, bytes_max)), header, found)
    return found


def _read_records(data: bytes, header: BatchHeader, found: list[Record]) -> None:
    """Append the records that fill `data` to `found`. At a malformed record, the ones before it
    have been appended. Raises KafkaError(INVALID_RECORD)."""
    base_offset, base_timestamp, count = header.base_offset, header.base_timestamp, header.count
    append_time = header.max_timestamp if header.log_append_time else None
    position, index, end = 0, 0, len(data)
    if count > end:
        raise _invalid(f"{count} records claimed in {end} bytes")
    loop = _read()
    while index < count:
        position, index = loop(
            data, position, index, count, found.append, base_offset, base_timestamp, append_time
        )
        if index < count:
            record = parse_record(data, position, index)
            when = base_timestamp + record.timestamp if append_time is None else append_time
            pairs = [
                (str(data[key.start : key.stop], "utf-8", "replace"), _piece(data, value))
                for key, value in record.headers
            ]
            key, value = _piece(data, record.key), _piece(data, record.value)
            found.append(Record(base_offset + record.offset, when, key, value, tuple(pairs)))
            position, index = record.stop, index + 1
    if position != end:
        raise _invalid(f"{end - position} bytes after the last record")


def _piece(data: bytes, part: Part) -> bytes | None:
    return None if part.number < 0 else data[part.start : part.stop]


@cache
def _read() -> Callable[..., tuple[int, int]]:
    """Compile the loop that makes a `Record` of each record."""
    return compile_loop(
        "read",
        "add, base_offset, base_timestamp, append_time",
        numbers={
            TIMESTAMP: (f"time = {signed()}",),
            OFFSET: (f"offset = {signed()}",),
            HEADERS: ("headers = [] if code else ()",),
        },
        cuts={
            KEY: (),
            VALUE: (),
            HEADER_KEY: (),
            HEADER_VALUE: ("headers.append((str(header_key, 'utf-8', 'replace'), header_value))",),
        },
        end=(
            "when = base_timestamp + time if append_time is None else append_time",
            "headers = headers and tuple(headers)",
            "add(new(Record, (base_offset + offset, when, key, value, headers)))",
        ),
        scope={"new": new_tuple, "Record": Record},
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
