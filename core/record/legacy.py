"""The formats before the record batch: messages v0 (0.8) and v1 (0.10, with timestamps: KIP-31,
KIP-32), alone and in sets.

```
 0 offset       int64     a set is messages one after another; each is
 8 size         int32       (bytes after this field)
12 CRC          uint32    CRC-32 of all that follows
16 magic        int8      0 or 1
17 attributes   int8      codec (3 bits); v1: log append time (bit 3)
18 timestamp    int64     v1 only: milliseconds since 1970, or -1
   key          int32 length (-1 null) and bytes
   value        the same
```

Compressed messages are in a *wrapper*: a message whose attributes name a codec, without a key, and
with a compressed set as its value. Its offset is that of the last message in the set. In v0 the
inner messages have absolute offsets, so a broker had to unpack and repack every wrapper. In v1 the
inner messages are numbered from 0: the offset of a message is that of the wrapper, minus the number
of the last inner message, plus its own number. If the wrapper has log append time, its timestamp is
that of all messages.

These formats have no zstd. lz4 in v0 has a wrong header checksum (KAFKA-3160), because old Kafka
included the frame's magic number in it. pk writes this checksum too, and ignores it when reading.

No log has these formats: pk stores only v2, and `convert.py` converts from and to them.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from zlib import crc32

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import DECOMPRESSED_BYTES_MAX, CorruptBatch, Record
from pk.core.record.compress import Codec, compress, decompress

Buffer = bytes | bytearray | memoryview
Row = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp in ms (-1 in v0), key, value."""

MAGICS: Final = (0, 1)
SET_HEAD_BYTES: Final = 12
"""The size of the offset and size fields, which precede every message."""
OVERHEAD: Final = (26, 34)
"""The size in bytes of a message with neither key nor value, by magic."""

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08

_CRC_END: Final = 16
_MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 17
_HEAD_V0: Final = Struct(">qiIbb")
_HEAD_V1: Final = Struct(">qiIbbq")
_UNTIL_KEY: Final = (Struct(">qiIbbi"), Struct(">qiIbbqi"))
"""The fields of a message up to the length of its key, by magic."""
_KEY_AT: Final = (22, 30)
_CHECKED: Final = (Struct(">bbi"), Struct(">bbqi"))
"""The fields of a message's head that the CRC covers, by magic."""
_BEFORE: Final = Struct(">qiI")
_INT32: Final = Struct(">i")
_NULL: Final = _INT32.pack(-1)


class MessageHeader(NamedTuple):
    """The head of a message, which is a record or the wrapper of compressed messages. `size` is the
    size of the whole message in bytes."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    @property
    def codec(self) -> Codec:
        """The codec of the messages in a wrapper; NONE for a plain record. Raises
        KafkaError(UNSUPPORTED_COMPRESSION_TYPE)."""
        return _codec(self.attributes)

    @property
    def log_append_time(self) -> bool:
        """Whether the timestamp is the broker's time of append, also for all messages in a
        wrapper."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME_BIT)


def read_message(buffer: Buffer, position: int = 0) -> MessageHeader:
    """Read the head of the message at `position`, which must be complete. Raises CorruptBatch."""
    left = len(buffer) - position
    if left < OVERHEAD[0]:
        raise CorruptBatch(f"a message cut off after {max(left, 0)} bytes")
    magic = buffer[position + _MAGIC_AT]
    if magic not in MAGICS:
        raise CorruptBatch(f"not a message of format v0 or v1: magic {magic}")
    size = _INT32.unpack_from(buffer, position + 8)[0] + SET_HEAD_BYTES
    if not OVERHEAD[magic] <= size <= left:
        raise CorruptBatch(f"a message of format v{magic} claims {size} bytes, {left} are there")
    if magic:
        offset, _, crc, _, attributes, timestamp = _HEAD_V1.unpack_from(buffer, position)
    else:
        offset, _, crc, _, attributes = _HEAD_V0.unpack_from(buffer, position)
        timestamp = -1
    return MessageHeader(offset, size, crc, magic, attributes, timestamp)


def check_message(buffer: Buffer, position: int, header: MessageHeader) -> None:
    """Raise CorruptBatch unless the message at `position` matches the CRC in its head."""
    actual = crc32(memoryview(buffer)[position + _CRC_END : position + header.size])
    if actual != header.crc:
        raise CorruptBatch(f"CRC is {actual:08x}, the message says {header.crc:08x}")


def iter_messages(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, MessageHeader]]:
    """Yield the position and head of each message in `buffer`, without opening wrappers. Stops
    before an incomplete message at the end, and before record batches (v2). Raises CorruptBatch
    like `read_message`, except for an incomplete message."""
    end = len(buffer)
    while end - position >= OVERHEAD[0]:
        magic = buffer[position + _MAGIC_AT]
        size = _INT32.unpack_from(buffer, position + 8)[0]
        if magic in MAGICS and size > end - position - SET_HEAD_BYTES or magic == 2:
            return
        header = read_message(buffer, position)
        yield position, header
        position += header.size


def message_records(
    buffer: Buffer,
    position: int = 0,
    header: MessageHeader | None = None,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> list[Record]:
    """Return the record of the message at `position`, or the records in the wrapper, with their
    offsets in a log. CRCs are checked.

    Raises CorruptBatch, KafkaError: INVALID_RECORD, MESSAGE_TOO_LARGE (expands beyond the bound),
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    if header is None:
        header = read_message(buffer, position)
    data = bytes(memoryview(buffer)[position : position + header.size])
    return [Record(*row) for row in rows_within(data, header, decompressed_bytes_max)]


def rows_within(data: bytes, header: MessageHeader, bytes_max: int) -> list[Row]:
    """Return the rows of the one message in `data`, with their offsets and timestamps in a log.
    Raises what `message_records` raises."""
    if not header.attributes & CODEC_BITS:
        return flat_rows(data, header.magic)
    rows = flat_rows(unwrap(data, header, bytes_max), header.magic)
    if not header.magic or not rows:
        return rows
    base = header.offset - rows[-1][0]
    if header.attributes & LOG_APPEND_TIME_BIT:
        return [(base + row[0], header.timestamp, row[2], row[3]) for row in rows]
    return [(base + row[0], row[1], row[2], row[3]) for row in rows]


def unwrap(data: bytes, header: MessageHeader, bytes_max: int) -> bytes:
    """Decompress the set in the wrapper `data`, after checking its CRC. Raises what
    `message_records` raises."""
    check_message(data, 0, header)
    key_at = _KEY_AT[header.magic] - 4
    try:
        value_at = key_at + 4 + max(_INT32.unpack_from(data, key_at)[0], 0)
        size = _INT32.unpack_from(data, value_at)[0]
    except StructError:
        raise CorruptBatch("a compressed message without its value") from None
    if size < 0 or value_at + 4 + size != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a compressed message's value of {size} bytes")
    codec = header.codec
    packed = memoryview(data)[value_at + 4 :]
    if codec == Codec.LZ4 and not header.magic:
        packed = repaired_lz4(packed)
    return bytes(decompress(codec, packed, bytes_max))


def flat_rows(data: bytes, magic: int, *, producing: bool = False) -> list[Row]:
    """Parse the rows of a set without compression. All messages must be of format `magic`, complete
    and correct. `producing` refuses log append time. Raises CorruptBatch (CRC, lengths, an
    incomplete message), KafkaError: INVALID_RECORD for another format or compression within the
    set, INVALID_TIMESTAMP."""
    rows: list[Row] = []
    add, until_key, integer = rows.append, _UNTIL_KEY[magic].unpack_from, _INT32.unpack_from
    least, key_from, timestamp = OVERHEAD[magic] - SET_HEAD_BYTES, _KEY_AT[magic], -1
    wanted_bits = CODEC_BITS | LOG_APPEND_TIME_BIT if producing and magic else CODEC_BITS
    position, end, view = 0, len(data), memoryview(data)
    while position < end:
        try:
            if magic:
                offset, size, crc, found, attributes, timestamp, length = until_key(data, position)
            else:
                offset, size, crc, found, attributes, length = until_key(data, position)
            stop = position + 12 + size
            if size < least or stop > end:
                raise CorruptBatch(f"message {len(rows)} claims {size} bytes")
            if crc32(view[position + 16 : stop]) != crc:
                raise CorruptBatch(f"message {len(rows)} has a wrong CRC")
            if found != magic or attributes & wanted_bits:
                raise _out_of_place(len(rows), magic, found, attributes)
            at = position + key_from
            if length < 0:
                key = None
            else:
                key = data[at : at + length]
                at += length
            value_length = integer(data, at)[0]
        except StructError:
            raise CorruptBatch(f"message {len(rows)} is cut off") from None
        at += 4
        if value_length < 0:
            value = None
        else:
            value = data[at : at + value_length]
            at += value_length
        if at != stop or length < -1 or value_length < -1:
            raise CorruptBatch(f"message {len(rows)} has lengths that do not add up")
        add((offset, timestamp, key, value))
        position = stop
    return rows


def _out_of_place(index: int, magic: int, found: int, attributes: int) -> KafkaError:
    if found != magic:
        what = f"message {index} is of format v{found}, the first of v{magic}"
        return KafkaError(ErrorCode.INVALID_RECORD, what)
    if attributes & CODEC_BITS:
        what = f"message {index} is compressed and not alone"
        return KafkaError(ErrorCode.INVALID_RECORD, what)
    return KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set log append time")


def produced_rows(
    data: bytes, message_bytes_max: int, inflated_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> tuple[list[Row], Codec]:
    """Parse a producer's message set. Returns its rows, whose offsets have no meaning, and its
    codec.

    Apache's LogValidator has the same rules: all messages have one format, and a compressed set is
    one wrapper. Raises what `message_records` does, CorruptBatch for an incomplete set, KafkaError:
    INVALID_RECORD for v2, INVALID_TIMESTAMP for log append time, MESSAGE_TOO_LARGE for a message of
    more than `message_bytes_max`, and one that expands to more than `inflated_bytes_max`.
    """
    if len(data) > _MAGIC_AT and data[_MAGIC_AT] == 2:
        raise KafkaError(ErrorCode.INVALID_RECORD, "record batches (v2) need Produce version 3")
    header = read_message(data)
    magic = header.magic
    codec = header.codec
    if codec != Codec.NONE:
        if header.size != len(data):
            raise KafkaError(ErrorCode.INVALID_RECORD, "a compressed message that is not alone")
        _check_size(header.size, message_bytes_max)
        if header.log_append_time:
            raise _out_of_place(0, magic, magic, LOG_APPEND_TIME_BIT)
        rows = flat_rows(unwrap(data, header, inflated_bytes_max), magic, producing=True)
    else:
        rows = flat_rows(data, magic, producing=True)
        if len(data) > message_bytes_max:
            overhead = OVERHEAD[magic]
            for _, _, key, value in rows:
                _check_size(overhead + len(key or b"") + len(value or b""), message_bytes_max)
    if not rows:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a compressed message with nothing in it")
    return rows, codec


def _check_size(size: int, message_bytes_max: int) -> None:
    if size > message_bytes_max:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a message of {size} bytes: max.message.bytes is {message_bytes_max}",
        )


def _codec(attributes: int) -> Codec:
    codec = Codec.from_attributes(attributes)
    if codec == Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "messages before v2 know no zstd (KIP-110)"
        )
    return codec


def build_set(
    rows: Iterable[Row],
    magic: int,
    codec: Codec = Codec.NONE,
    *,
    level: int | None = None,
    log_append_time: bool = False,
) -> bytes:
    """Build a message set of `rows`, in the order of their offsets; with a codec, one wrapper.

    It has no headers, and in v0 no timestamps. Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for
    zstd, ValueError for a wrapper of no messages.
    """
    bit = LOG_APPEND_TIME_BIT if log_append_time and magic else 0
    if codec == Codec.NONE:
        return b"".join(message_parts(rows, magic, bit))
    _codec(codec)
    rows = list(rows)
    if not rows:
        raise ValueError("a wrapper of no messages")
    last = rows[-1][0]
    latest = max(row[1] for row in rows)
    if magic:
        base = rows[0][0]
        rows = [(offset - base, time, key, value) for offset, time, key, value in rows]
    packed = compress(codec, b"".join(message_parts(rows, magic, bit)), level)
    if codec == Codec.LZ4 and not magic:
        packed = broken_lz4(packed)
    return b"".join(message_parts(((last, latest, None, packed),), magic, bit | codec))


def message_parts(rows: Iterable[Row], magic: int, attributes: int) -> list[bytes]:
    """Encode a message for each row, in two parts."""
    parts: list[bytes] = []
    add, head, before, integer = parts.append, _CHECKED[magic].pack, _BEFORE.pack, _INT32.pack
    for offset, timestamp, key, value in rows:
        size = -1 if key is None else len(key)
        body = b"".join(
            (
                head(1, attributes, timestamp, size) if magic else head(0, attributes, size),
                key or b"",
                _NULL if value is None else integer(len(value)),
                value or b"",
            )
        )
        add(before(offset, len(body) + 4, crc32(body)))
        add(body)
    return parts


# --- lz4 in v0 (KAFKA-3160) ---

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE_BIT: Final = 0x08
_LZ4_DICTIONARY_BIT: Final = 0x01


def repaired_lz4(frame: Buffer) -> Buffer:
    """Return the frame with the header checksum that the lz4 format requires, whatever it has
    now."""
    checksum_at = _lz4_checksum_at(frame)
    if checksum_at is None:
        return frame  # not lz4: decompressing it will fail with a clear error
    mended = bytearray(frame)
    mended[checksum_at] = _checksum(bytes(mended[4:checksum_at]))
    return mended


def broken_lz4(frame: bytes) -> bytes:
    """Return the frame with the header checksum that Kafka before 0.10 writes and expects."""
    checksum_at = _lz4_checksum_at(frame)
    assert checksum_at is not None
    broken = bytearray(frame)
    broken[checksum_at] = _checksum(frame[:checksum_at])
    return bytes(broken)


def _lz4_checksum_at(frame: Buffer) -> int | None:
    """Return the position of the header's checksum in the frame; None if it is not an lz4 frame."""
    if len(frame) < 7 or bytes(frame[:4]) != _LZ4_MAGIC:
        return None
    at = 6
    if frame[4] & _LZ4_CONTENT_SIZE_BIT:
        at += 8
    if frame[4] & _LZ4_DICTIONARY_BIT:
        at += 4
    return at if at < len(frame) else None


def _checksum(head: bytes) -> int:
    return _xxh32(head) >> 8 & 0xFF


_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK: Final = 0xFFFFFFFF


def _rotated(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> 32 - bits) & _MASK


def _xxh32(data: bytes) -> int:
    """Compute XXH32 with seed 0 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) of a few bytes,
    the head of an lz4 frame."""
    p1, p2, p3, p4, p5 = _PRIMES
    at, total = 0, p5
    if len(data) >= 16:
        lanes = [p1 + p2 & _MASK, p2, 0, -p1 & _MASK]
        while at + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                lanes[lane] = _rotated(lanes[lane] + word * p2, 13) * p1 & _MASK
                at += 4
        total = sum(map(_rotated, lanes, (1, 7, 12, 18)))
    total += len(data)
    while at + 4 <= len(data):
        total = _rotated(total + int.from_bytes(data[at : at + 4], "little") * p3, 17) * p4
        at += 4
    for byte in data[at:]:
        total = _rotated(total + byte * p5, 11) * p1
    total &= _MASK
    total = (total ^ total >> 15) * p2 & _MASK
    total = (total ^ total >> 13) * p3 & _MASK
    return total ^ total >> 16
