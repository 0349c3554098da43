"""What a producer's batch must pass before it is appended.

As Kafka does, the records inside are looked at one by one: a batch that lies about its count, its
lengths or its times would be found out by every consumer, for ever. Small batches are looked at on
the loop, where that costs less than a turn through a thread, compressed ones too, as long as they
do not inflate to much more; large batches and those that the topic wants in another codec are not.

Message sets of the formats v0 and v1, which producers of 0.10 and before send, become a batch here:
the log holds v2 only.

A topic may refuse records of a well-formed batch: those without a key if it is compacted, and those
whose times are out of its bounds. The check of the batch finds out that there are some. `refusal`
then reads the records one by one to name them (KIP-467).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pk.core.config import TopicConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    CODEC_BITS,
    LOGGED_BYTES_MAX,
    BatchHeader,
    CorruptBatch,
    Timestamps,
    check_crc,
    iter_headers,
    read_header,
    records,
    validate_records,
)
from pk.core.record.compress import Codec
from pk.core.record.convert import batch_of
from pk.core.record.framing import Framing, framing_of
from pk.core.record.legacy import ATTRIBUTES_AT, OVERHEAD, produced_rows
from pk.core.record.recode import recode
from pk.core.record.walk import NoKey, TooUnlike
from pk.core.values import TopicPartition, new_tuple

INLINE_RECORDS: Final = 4096
"""Batches up to so many records are looked at on the loop: a few milliseconds at the worst."""
ALIKE: Final = 16
"""So many records in long stretches of one shape take at most as long as one by itself."""
UNLIKE_MAX: Final = 512
"""How many records may lie outside of such stretches in a batch of more than `INLINE_RECORDS` that
is looked at on the loop; each stretch counts as some of them. With more it goes to a thread, which
begins again."""
INLINE_COMPRESSED_BYTES: Final = 64 * 1024
"""Compressed batches up to this size are, unless they inflate to more than the next. A turn through
a thread would cost more CPU than it takes, and spare other clients nothing that they notice: their
p99 was the same. With batches of 256 kB it was three times as high."""
INLINE_INFLATED_BYTES: Final = 128 * 1024
INLINE_SET_BYTES: Final = 16 * 1024
"""Message sets of an old format up to this size are converted there."""
INLINE_WRAPPER_BYTES: Final = 512
"""Compressed ones up to this size: they may hold a thousand times as much, in messages of 26
bytes."""

NAMED_MAX: Final = 10_000
"""How many refused records an answer names at most. A batch of 128 MiB has room for millions, and
the answer would be larger than the request."""
QUOTED_MAX: Final = 3
"""How many of them the message about the batch quotes."""
NO_TIMESTAMP: Final = -1

GZIP_DEFAULT: Final = -1

PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"

_AS_THEY_ARE: Final = frozenset({PRODUCER, UNCOMPRESSED})
ANY_TIME: Final = Timestamps(-(1 << 64), 1 << 64)
"""The bounds of a topic that stamps the records itself."""

_new = new_tuple


class RefusedRecords(KafkaError):
    """INVALID_RECORD or INVALID_TIMESTAMP on account of some records of a well-formed batch;
    `records` has the number of each in the batch, and what is wrong with it."""

    def __init__(self, code: int, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = records


class OutOfRange(KafkaError):
    """INVALID_TIMESTAMP: some time in the batch is out of the topic's bounds."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INVALID_TIMESTAMP)


class Admitted(NamedTuple):
    """A batch that may be appended, and the times of its records."""

    batch: bytearray | memoryview
    header: BatchHeader
    timestamps: Timestamps


def read_one_batch(records: memoryview | None, config: TopicConfig) -> BatchHeader:
    """The header of the one batch that `records` is. Raises KafkaError where it is more, less or
    too much."""
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without a record batch")
    try:
        header = read_header(records, 0)
    except CorruptBatch as e:
        # What is not there, or is of an old format, is no better when it is sent again.
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
    return header


def time_bounds(config: TopicConfig, now_ms: int) -> Timestamps:
    """Between which times a topic takes records at `now_ms`."""
    if config.log_append_time:
        return ANY_TIME
    return Timestamps(
        now_ms - config.message_timestamp_before_max_ms,
        now_ms + config.message_timestamp_after_max_ms,
    )


def _check_times(timestamps: Timestamps, bounds: Timestamps) -> None:
    if timestamps[0] < bounds[0] or timestamps[1] > bounds[1]:
        raise OutOfRange


def is_small(header: BatchHeader, config: TopicConfig) -> bool:
    """Whether `admit_inline` may be called on the loop."""
    codec = header.attributes & CODEC_BITS
    if codec and header.size > INLINE_COMPRESSED_BYTES:
        return False
    if config.compression_type != PRODUCER and _codec_wanted(config, header) != codec:
        return False
    return header.count <= INLINE_RECORDS


def admit_inline(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    bounds: Timestamps,
    frame: bytearray | None = None,
    at: int = 0,
) -> Admitted | None:
    """As `admit`, for a batch that `is_small`, on the loop; None where it inflates to more than the
    loop should look at. `frame` and `at` are those of `validate_records`."""
    if config.compression_type == PRODUCER and not header.attributes & CODEC_BITS:
        timestamps = validate_records(batch, header, compacted=config.compact, frame=frame, at=at)
        _check_times(timestamps, bounds)
        return _new(Admitted, (batch, header, timestamps))
    try:
        return admit(batch, header, config, bounds, INLINE_INFLATED_BYTES)
    except KafkaError as e:
        if e.code == ErrorCode.MESSAGE_TOO_LARGE:
            return None
        raise


class LastRecord:
    """The framing of the last record that a client sent by itself: a batch with one record that is
    framed alike passes as that did (core/record/framing.py)."""

    __slots__ = ("_config", "_framing", "_size", "_unframed_size")

    def __init__(self) -> None:
        self._framing: Framing | None = None
        self._config: TopicConfig | None = None
        """Of the topic that took it."""
        self._size = 0
        """Of the last batch that was framed differently: only the second of a size is worth a
        framing."""
        self._unframed_size = 0
        """Of the last batch that had none."""

    def admit(
        self,
        data: bytearray,
        start: int,
        batch: memoryview,
        header: BatchHeader,
        config: TopicConfig,
        bounds: Timestamps,
    ) -> Admitted | None:
        """`batch`, which begins at `start` in `data`, as `admit` would return it; None where that
        must look into it."""
        framing = self._framing
        if framing is None or config is not self._config:
            return None
        (
            base,
            size,
            _,
            _,
            _,
            attributes,
            last,
            base_timestamp,
            _,
            producer_id,
            _,
            sequence,
            count,
        ) = header
        if (
            count != 1
            or base
            or attributes
            or last
            or (producer_id >= 0 and sequence < 0)
            or not framing.frames(data, start, start + size)
        ):
            return None
        timestamp = base_timestamp + framing.timestamp_delta
        if not bounds[0] <= timestamp <= bounds[1]:
            return None
        return _new(Admitted, (batch, header, _new(Timestamps, (timestamp, timestamp))))

    def note(self, batch: memoryview, header: BatchHeader, config: TopicConfig) -> None:
        """`batch` has passed `admit_inline`: if it has but one record, expect more like it."""
        size = header.size
        if header.count != 1 or size == self._unframed_size:
            return
        if size != self._size:
            self._size = size
        elif not header.attributes and config.compression_type == PRODUCER:
            self._framing, self._config = framing_of(batch, header), config
            if self._framing is None:
                self._unframed_size = size


def admit_alike(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    bounds: Timestamps,
    frame: bytearray | None = None,
    at: int = 0,
) -> Admitted | None:
    """As `admit`, on the loop, for a batch of many records that stay as they are and lie in long
    stretches of one shape; None for any other. To hand it to a thread would take about as long as
    to look at it. `frame` and `at` are those of `validate_records`."""
    if header.attributes & CODEC_BITS or config.compression_type not in _AS_THEY_ARE:
        return None
    try:
        timestamps = validate_records(
            batch, header, compacted=config.compact, unlike_max=UNLIKE_MAX, frame=frame, at=at
        )
    except TooUnlike:
        return None
    _check_times(timestamps, bounds)
    return Admitted(batch, header, timestamps)


def admit(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    bounds: Timestamps,
    inflated_bytes_max: int | None = None,
) -> Admitted:
    """Look into a batch; what to append in its place: itself, unless the topic wants another codec.
    `bounds` are the topic's `time_bounds`.

    Raises KafkaError: INVALID_RECORD, INVALID_TIMESTAMP, CORRUPT_MESSAGE,
    UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE where it inflates to more than
    `inflated_bytes_max`, if given, or `pk.decompressed.bytes.max`. `refusal` makes of that the
    error that the client gets.
    """
    bytes_max = config.pk_decompressed_bytes_max
    if inflated_bytes_max is not None:
        bytes_max = min(bytes_max, inflated_bytes_max)
    timestamps = validate_records(
        batch, header, compacted=config.compact, decompressed_bytes_max=bytes_max
    )
    _check_times(timestamps, bounds)
    if config.compression_type == PRODUCER:
        return _new(Admitted, (batch, header, timestamps))
    codec = _codec_wanted(config, header)
    if codec == header.attributes & CODEC_BITS:
        return Admitted(batch, header, timestamps)
    check_crc(batch, 0, header)
    changed = recode(batch, header, Codec(codec), _level(config, Codec(codec)))
    return Admitted(changed, read_header(changed, 0), timestamps)


def refusal(
    error: KafkaError,
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    bounds: Timestamps,
    tp: TopicPartition,
) -> KafkaError | None:
    """The error for the producer after `admit` has raised `error` for a batch. In Apache Kafka's
    order: the batch was damaged on its way, it is malformed, or the topic does not take some of its
    records (RefusedRecords). None if the only times out of bounds are those of records without a
    time: the topic takes them."""
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
    """The error that names the records that the topic does not take; None if it takes all. `rows`
    are the time and the key of each. The sentences are Apache Kafka's."""
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


def is_small_set(records: memoryview | None) -> bool:
    """Whether `admit_messages` may run on the loop."""
    if not records or len(records) < OVERHEAD[0]:
        return True
    compressed = records[ATTRIBUTES_AT] & CODEC_BITS
    return len(records) <= (INLINE_WRAPPER_BYTES if compressed else INLINE_SET_BYTES)


def admit_messages(
    records: memoryview | None, config: TopicConfig, bounds: Timestamps, tp: TopicPartition
) -> Admitted:
    """The batch that a message set of format v0 or v1 becomes, in the codec that the topic wants.

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
    return Admitted(batch, header, timestamps)


def _codec_wanted(config: TopicConfig, header: BatchHeader) -> int:
    """The codec in which the topic stores a batch (`compression.type`)."""
    wanted = config.compression_type
    if wanted == PRODUCER:
        return header.attributes & CODEC_BITS
    return Codec.NONE if wanted == UNCOMPRESSED else Codec.from_name(wanted)


def _level(config: TopicConfig, codec: Codec) -> int | None:
    """The level of the topic's keys; None for the codec's own, which gzip's key calls -1."""
    if codec == Codec.GZIP and config.compression_gzip_level == GZIP_DEFAULT:
        return None
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)
