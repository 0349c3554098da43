"""All rules that a producer's batch must meet before a log accepts it.

- `read_one_batch` checks what its header says: it is one batch of format v2, not larger than the
  topic allows, and `check_header` accepts it.
- `validate` checks the records: `validate_records` reads each of them, as Kafka's LogValidator
  does, since no consumer could read a batch whose count, lengths or timestamps are wrong. Then it
  compares their timestamps with the topic's bounds. The result is a `ValidatedBatch`, for which a
  log does not check these rules again.
- The log checks the CRC immediately before it writes the batch (core/log/appender.py).

A batch that breaks several rules is refused for the first of these: its size, the CRC, its header,
its records, then what the topic refuses of records that are well-formed: those without a key if it
is compacted, and those whose times are out of its bounds. `validate` finds out that there are such
records, and `refusal` then reads the records one by one to name them (KIP-467).

Small batches are validated on the event loop, which costs less than a thread; compressed ones too,
unless they expand to much more. `is_small` says which. Large batches, and those that the topic
wants in another codec, are validated in a thread.

Message sets of the formats v0 and v1, which producers of 0.10 and before send, become a batch here
(`validate_messages`), because a log holds v2 only.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pk.core.config import TopicConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOGGED_BYTES_MAX,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    CorruptBatch,
    Timestamps,
    body,
    check_crc,
    iter_headers,
    read_header,
    records,
)
from pk.core.record.compress import Codec
from pk.core.record.convert import batch_of
from pk.core.record.legacy import ATTRIBUTES_AT, OVERHEAD, produced_rows
from pk.core.record.recode import recode
from pk.core.record.walk import NoKey, NotUniform, walk
from pk.core.values import TopicPartition

INLINE_RECORDS: Final = 4096
"""A batch of at most this many records is validated on the loop: a few milliseconds at worst."""
UNIFORM_SPEEDUP: Final = 16
"""Records in long stretches of one shape are checked at least this many times as fast as others."""
SINGLES_MAX: Final = 512
"""The maximum number of records outside such stretches in a batch of more than `INLINE_RECORDS` for
which the batch is validated on the loop; each stretch counts as some of them. A batch with more
goes to a thread, which begins again."""
INLINE_COMPRESSED_BYTES: Final = 64 * 1024
"""A compressed batch of at most this size is validated on the loop, unless it expands to more than
`INLINE_INFLATED_BYTES`. A thread would cost more CPU, and other clients would not notice: their p99
was the same. Batches of 256 kB on the loop tripled it."""
INLINE_INFLATED_BYTES: Final = 128 * 1024
INLINE_SET_BYTES: Final = 16 * 1024
"""A message set of an old format of at most this size is converted on the loop."""
INLINE_WRAPPER_BYTES: Final = 512
"""The same for a compressed one, which may hold a thousand times as much in messages of 26
bytes."""

NAMED_MAX: Final = 10_000
"""The maximum number of refused records that a response names. A batch of 128 MiB has room for
millions, and the response would be larger than the request."""
QUOTED_MAX: Final = 3
"""The number of these records that the message about the batch quotes."""
NO_TIMESTAMP: Final = -1

VERSION_ZSTD: Final = 7
"""The first version of Produce that may contain batches in zstd."""

GZIP_DEFAULT: Final = -1

PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"

_UNCHANGED: Final = frozenset({PRODUCER, UNCOMPRESSED})
"""The values of `compression.type` that leave an uncompressed batch as it is."""
ANY_TIME: Final = Timestamps(-(1 << 64), 1 << 64)
"""The bounds of a topic that sets the timestamps itself."""


class RefusedRecords(KafkaError):
    """INVALID_RECORD or INVALID_TIMESTAMP because the topic refuses some records of a well-formed
    batch. `records` has the number in the batch of each of them, and the reason."""

    def __init__(self, code: int, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = records


class OutOfRange(KafkaError):
    """INVALID_TIMESTAMP: a timestamp in the batch is out of the topic's bounds."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INVALID_TIMESTAMP)


class ValidatedBatch(NamedTuple):
    """A producer's batch that a log may append, and the timestamps of its records."""

    batch: bytearray | memoryview
    header: BatchHeader
    timestamps: Timestamps


# --- the header ---

_CHECKED_BITS: Final = CONTROL_BIT | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT


def check_header(header: BatchHeader) -> None:
    """Check the fields of a producer's header, without reading the records.

    Raises KafkaError: INVALID_RECORD, INVALID_TIMESTAMP if the producer claims log append time.
    """
    base, _, _, _, _, attributes, delta, _, _, producer_id, _, sequence, count = header
    if base:
        raise _invalid(f"a producer's base offset is 0, not {base}")
    if count <= 0 or delta != count - 1:
        raise _invalid(f"{count} records, but the last has offset delta {delta}")
    if attributes & _CHECKED_BITS:
        if attributes & CONTROL_BIT:
            raise _invalid("clients are not allowed to write control records")
        if attributes & LOG_APPEND_TIME_BIT:
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set log append time")
        if producer_id < 0:
            raise _invalid("a transactional batch without a producer id")
    if producer_id >= 0 and sequence < 0:
        raise _invalid(f"producer id {producer_id} with sequence {sequence}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def check_codec(header: BatchHeader, version: int) -> None:
    """Raise KafkaError(UNSUPPORTED_COMPRESSION_TYPE) if a Produce request of `version` may not
    contain a batch in this codec (KIP-110), or the codec is unknown."""
    if header.codec == Codec.ZSTD and version < VERSION_ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")


def read_one_batch(records: memoryview | None, config: TopicConfig) -> BatchHeader:
    """Read and check the header of the one batch that fills `records`.

    Raises KafkaError: INVALID_RECORD unless it is exactly one batch of format v2,
    MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, and what `check_header` raises.
    """
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without a record batch")
    try:
        header = read_header(records, 0)
    except CorruptBatch as e:
        # A producer retries after CORRUPT_MESSAGE. That does not help if the batch is missing or
        # has an old format.
        old = e.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        if old or next(iter_headers(records), None) is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, e.message) from None
        raise
    if header.size != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, "more or less than one record batch")
    if header.size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size} bytes: max.message.bytes is {config.max_message_bytes}",
        )
    try:
        check_header(header)
    except KafkaError:
        check_crc(records, 0, header)  # perhaps it was damaged on the way
        raise
    return header


# --- the records ---


def validate_records(
    batch: Buffer,
    header: BatchHeader,
    *,
    compacted: bool = False,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    singles_max: int | None = None,
    frame: bytearray | None = None,
    at: int = 0,
) -> Timestamps:
    """Check every record of a producer's batch, which begins `batch`, as Apache's LogValidator
    does. `check_header` has accepted `header`; the CRC is not checked. If `batch` is a view of
    `frame` that begins at byte `at`, passing these is faster. (They are separate arguments because
    this runs for every batch, and creating an object for them would take time.)

    Returns the earliest and latest timestamp of the records. The caller compares them with the
    topic's bounds and corrects `max_timestamp` (`assign`).

    Raises KafkaError: INVALID_RECORD for a count that is not the number of records, offset deltas
    other than 0, 1, 2…, contradicting lengths, and bytes after the last record; NoKey for a null
    key if the topic is compacted; what `body` raises. Raises NotUniform as `walk` does.
    """
    if header.attributes & CODEC_BITS:
        data = body(batch, header, decompressed_bytes_max)
        least, most = walk(data, header.count, compacted, singles_max)
    else:
        data = memoryview(batch)[HEADER_BYTES : header.size]
        at += HEADER_BYTES
        least, most = walk(data, header.count, compacted, singles_max, frame=frame, at=at)
    base = header.base_timestamp
    return Timestamps(base + least, base + most)


def time_bounds(config: TopicConfig, now_ms: int) -> Timestamps:
    """Return the earliest and latest timestamp that a topic accepts at `now_ms`."""
    if config.log_append_time:
        return ANY_TIME
    return Timestamps(
        now_ms - config.message_timestamp_before_max_ms,
        now_ms + config.message_timestamp_after_max_ms,
    )


def _check_times(timestamps: Timestamps, bounds: Timestamps) -> None:
    if timestamps[0] < bounds[0] or timestamps[1] > bounds[1]:
        raise OutOfRange


def validate(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    bounds: Timestamps,
    inflated_bytes_max: int | None = None,
) -> ValidatedBatch:
    """Validate the records of a batch whose header `read_one_batch` returned. Returns the batch
    itself, or a copy in the codec that the topic requires. `bounds` are the topic's `time_bounds`.

    Raises KafkaError: INVALID_RECORD, INVALID_TIMESTAMP, CORRUPT_MESSAGE,
    UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE if it expands to more than `inflated_bytes_max`,
    if given, or `pk.decompressed.bytes.max`. `refusal` converts the error to the one that the
    client gets.
    """
    bytes_max = config.pk_decompressed_bytes_max
    if inflated_bytes_max is not None:
        bytes_max = min(bytes_max, inflated_bytes_max)
    timestamps = validate_records(
        batch, header, compacted=config.compact, decompressed_bytes_max=bytes_max
    )
    _check_times(timestamps, bounds)
    if config.compression_type == PRODUCER:
        return ValidatedBatch(batch, header, timestamps)
    codec = _codec_wanted(config, header)
    if codec == header.attributes & CODEC_BITS:
        return ValidatedBatch(batch, header, timestamps)
    check_crc(batch, 0, header)
    changed = recode(batch, header, Codec(codec), _level(config, Codec(codec)))
    return ValidatedBatch(changed, read_header(changed, 0), timestamps)


def is_small(header: BatchHeader, config: TopicConfig) -> bool:
    """Return whether `validate_inline` may be called on the loop."""
    codec = header.attributes & CODEC_BITS
    if codec and header.size > INLINE_COMPRESSED_BYTES:
        return False
    if config.compression_type != PRODUCER and _codec_wanted(config, header) != codec:
        return False
    return header.count <= INLINE_RECORDS


def validate_inline(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    bounds: Timestamps,
    frame: bytearray | None = None,
    at: int = 0,
) -> ValidatedBatch | None:
    """Like `validate`, but on the loop, for a batch that `is_small`. Returns None if it expands to
    more than the loop should process. `frame` and `at` are those of `validate_records`."""
    if config.compression_type == PRODUCER and not header.attributes & CODEC_BITS:
        timestamps = validate_records(batch, header, compacted=config.compact, frame=frame, at=at)
        _check_times(timestamps, bounds)
        return ValidatedBatch(batch, header, timestamps)
    try:
        return validate(batch, header, config, bounds, INLINE_INFLATED_BYTES)
    except KafkaError as e:
        if e.code == ErrorCode.MESSAGE_TOO_LARGE:
            return None
        raise


def validate_uniform(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    bounds: Timestamps,
    frame: bytearray | None = None,
    at: int = 0,
) -> ValidatedBatch | None:
    """Like `validate`, but on the loop, for a batch of many records in long stretches of one shape
    that keeps its codec. Returns None for any other batch. Handing such a batch to a thread would
    take about as long as checking it. `frame` and `at` are those of `validate_records`."""
    if header.attributes & CODEC_BITS or config.compression_type not in _UNCHANGED:
        return None
    try:
        timestamps = validate_records(
            batch, header, compacted=config.compact, singles_max=SINGLES_MAX, frame=frame, at=at
        )
    except NotUniform:
        return None
    _check_times(timestamps, bounds)
    return ValidatedBatch(batch, header, timestamps)


# --- refusals ---


def refusal(
    error: KafkaError,
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    bounds: Timestamps,
    tp: TopicPartition,
) -> KafkaError | None:
    """Return the error that the producer gets after `validate` has raised `error` for a batch, in
    Apache Kafka's order: the batch was damaged on the way, it is malformed, or the topic refuses
    some of its records (RefusedRecords). Returns None if only records without a timestamp are out
    of bounds: the topic accepts those."""
    try:
        check_crc(batch, 0, header)
        if not isinstance(error, (NoKey, OutOfRange)):
            return error
        if isinstance(error, NoKey):
            bytes_max = config.pk_decompressed_bytes_max
            validate_records(batch, header, decompressed_bytes_max=bytes_max)
    except KafkaError as e:
        return e
    found = records(batch, header, decompressed_bytes_max=LOGGED_BYTES_MAX)
    rows = ((record.timestamp, record.key) for record in found)
    return _refused(rows, config, bounds, tp)


def _refused(
    rows: Iterable[tuple[int, bytes | None]],
    config: TopicConfig,
    bounds: Timestamps,
    tp: TopicPartition,
) -> RefusedRecords | None:
    """Return the error that names the records that the topic refuses; None if it refuses none.
    `rows` are the timestamp and the key of each record. The wording is Apache Kafka's."""
    named: list[tuple[int, str]] = []
    count, code = 0, ErrorCode.INVALID_RECORD
    earliest, latest = bounds
    for index, (timestamp, key) in enumerate(rows):
        if key is None and config.compact:
            what = f"Compacted topic cannot accept message without key in topic partition {tp}"
        elif timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            code = ErrorCode.INVALID_TIMESTAMP
            what = (
                f"Timestamp {timestamp} of message with offset {index} is out of range. "
                f"The timestamp should be within [{earliest}, {latest}]"
            )
        else:
            continue
        count += 1
        if count <= NAMED_MAX:
            named.append((index, what))
    if not count:
        return None
    message = "One or more records have been rejected due to invalid timestamp"
    if code == ErrorCode.INVALID_RECORD:
        quoted = ", ".join(
            f"RecordError(batchIndex={index}, message='{what}')"
            for index, what in named[:QUOTED_MAX]
        )
        message = (
            f"One or more records have been rejected due to {count} record errors in total, and "
            f"only showing the first three errors at most: [{quoted}]"
        )
    return RefusedRecords(code, message, named)


# --- the old formats ---


def is_small_set(records: memoryview | None) -> bool:
    """Return whether `validate_messages` may be called on the loop."""
    if not records or len(records) < OVERHEAD[0]:
        return True
    compressed = records[ATTRIBUTES_AT] & CODEC_BITS
    return len(records) <= (INLINE_WRAPPER_BYTES if compressed else INLINE_SET_BYTES)


def validate_messages(
    records: memoryview | None, config: TopicConfig, bounds: Timestamps, tp: TopicPartition
) -> ValidatedBatch:
    """Validate a message set of format v0 or v1, and convert it to a batch in the codec that the
    topic requires.

    Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE for a
    message or the batch, UNSUPPORTED_COMPRESSION_TYPE; RefusedRecords.
    """
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without messages")
    rows, codec = produced_rows(
        bytes(records), config.max_message_bytes, config.pk_decompressed_bytes_max
    )
    refused = _refused(((row[1], row[2]) for row in rows), config, bounds, tp)
    if refused is not None:
        raise refused
    level = None
    if config.compression_type != PRODUCER:
        codec = Codec.from_name(config.compression_type)
        level = _level(config, codec)
    batch, timestamps = batch_of(rows, codec, level)
    header = read_one_batch(memoryview(batch), config)
    return ValidatedBatch(batch, header, timestamps)


def _codec_wanted(config: TopicConfig, header: BatchHeader) -> int:
    """Return the codec in which the topic stores a batch (`compression.type`)."""
    wanted = config.compression_type
    if wanted == PRODUCER:
        return header.attributes & CODEC_BITS
    return Codec.NONE if wanted == UNCOMPRESSED else Codec.from_name(wanted)


def _level(config: TopicConfig, codec: Codec) -> int | None:
    """Return the compression level in the topic's configs. None is the codec's default, for which
    gzip's config is -1."""
    if codec == Codec.GZIP and config.compression_gzip_level == GZIP_DEFAULT:
        return None
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)
