"""Builds batches of format v2 from records."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    Record,
    write_crc,
)
from pk.core.record.compress import Codec, compress
from pk.core.record.varint import VARINTS

Headers = Sequence[tuple[str, bytes | None]]

BATCH_BYTES_MAX: Final = 0x7FFFFFFF
"""The maximum size in bytes: the length field of a batch is a signed 32-bit number."""


class ControlType(IntEnum):
    """The type of a control record: the second number of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_KEY: Final = Struct(">hh")
_END_TXN_MARKER: Final = Struct(">hi")


class BatchBuilder:
    """Collects records for one batch. Do not use it after `build`.

    `bytes_max` limits the batch before compression. The first record may be of any size.
    """

    __slots__ = ("_base", "_body", "_bytes_max", "_codec", "_latest", "_level", "count")

    def __init__(
        self, codec: Codec = Codec.NONE, level: int | None = None, bytes_max: int = BATCH_BYTES_MAX
    ) -> None:
        self._codec = codec
        self._level = level
        self._bytes_max = bytes_max
        self._body = bytearray(HEADER_BYTES)
        self._base = self._latest = -1
        self.count = 0
        """The number of records so far."""

    @property
    def size_estimate(self) -> int:
        """The size of the batch in bytes before compression."""
        return len(self._body)

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> int:
        """Add a record. Returns its size in bytes, or 0 if it does not fit and was not added."""
        body, varints, count = self._body, VARINTS, self.count
        if not count:
            self._base = self._latest = timestamp_ms
        record = b"".join(
            (
                b"\0",
                varints[timestamp_ms - self._base],
                varints[count],
                b"\x01" if key is None else varints[len(key)],
                key or b"",
                b"\x01" if value is None else varints[len(value)],
                value or b"",
                _headers(headers) if headers else b"\0",
            )
        )
        size = varints[len(record)]
        added = len(size) + len(record)
        if count and len(body) + added > self._bytes_max:
            return 0
        body += size
        body += record
        self._latest = max(self._latest, timestamp_ms)
        self.count = count + 1
        return added

    def extend(
        self, timestamp_ms: int, framed: Iterable[bytes], enough_bytes: int = BATCH_BYTES_MAX
    ) -> None:
        """Add records, each as `frame_record` makes it, until one does not fit, or `size_estimate`
        is above `enough_bytes`. Does the same as `append` for each of them, in a quarter of the
        time."""
        varints, count, size, bytes_max = VARINTS, self.count, len(self._body), self._bytes_max
        parts: list[bytes] = []
        if not count:
            self._base = self._latest = timestamp_ms
        start = b"\0" + varints[timestamp_ms - self._base]
        for record in framed:
            offset = varints[count]
            length = len(start) + len(offset) + len(record)
            prefix = varints[length]
            added = size + len(prefix) + length
            if count and added > bytes_max:
                break
            parts += (prefix, start, offset, record)
            size = added
            count += 1
            if size > enough_bytes:
                break
        self._body += b"".join(parts)
        if count > self.count:
            self._latest = max(self._latest, timestamp_ms)
            self.count = count

    def build(
        self,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        *,
        transactional: bool = False,
        control: bool = False,
        log_append_time_ms: int | None = None,
    ) -> bytearray:
        """Build the batch, with its CRC. The arguments are fields of its header. Raises ValueError
        without records, KafkaError(MESSAGE_TOO_LARGE)."""
        if not self.count:
            raise ValueError("a batch of no records")
        seal(
            self._body,
            self.count,
            self._base,
            self._latest,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            codec=self._codec,
            level=self._level,
            transactional=transactional,
            control=control,
            log_append_time_ms=log_append_time_ms,
        )
        return self._body


def frame_record(key: bytes | None, value: bytes | None) -> bytes:
    """Encode a record without headers for `BatchBuilder.extend`, from the length of its key on. The
    bytes before that depend on the batch."""
    return b"".join(
        (
            b"\x01" if key is None else VARINTS[len(key)],
            key or b"",
            b"\x01" if value is None else VARINTS[len(value)],
            value or b"",
            b"\0",
        )
    )


def seal(
    batch: bytearray,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> None:
    """Complete `batch`, which has space for the header and then the records, as yet uncompressed.
    The other arguments are the fields of the header.

    Raises KafkaError(MESSAGE_TOO_LARGE) if the size does not fit into the length field.
    """
    if codec != Codec.NONE:
        with memoryview(batch) as view, view[HEADER_BYTES:] as plain:
            packed = compress(codec, plain, level)
        batch[HEADER_BYTES:] = packed
    if len(batch) > BATCH_BYTES_MAX:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(batch)} bytes")
    attributes = int(codec)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp = log_append_time_ms
    if transactional:
        attributes |= TRANSACTIONAL_BIT
    if control:
        attributes |= CONTROL_BIT
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_END,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    write_crc(batch)


def _headers(headers: Headers) -> bytes:
    parts = [VARINTS[len(headers)]]
    for name, value in headers:
        key = name.encode()
        parts += (VARINTS[len(key)], key)
        parts += (b"\x01",) if value is None else (VARINTS[len(value)], value)
    return b"".join(parts)


def build_batch(
    records: Iterable[tuple[int, bytes | None, bytes | None, Headers]],
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytearray:
    """Build one batch of all `records` (timestamp in ms, key, value, headers). The other arguments
    are fields of its header. Raises what `BatchBuilder.build` raises."""
    builder = BatchBuilder(codec, level)
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms, key, value, headers)
    return builder.build(
        base_offset,
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        transactional=transactional,
        control=control,
        log_append_time_ms=log_append_time_ms,
    )


def end_transaction_batch(
    commit: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    *,
    base_offset: int = 0,
) -> bytearray:
    """Build the marker that ends a transaction in a partition (EndTxnMarker, KIP-98)."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    marker = _CONTROL_KEY.pack(0, kind), _END_TXN_MARKER.pack(0, coordinator_epoch)
    return build_batch(
        [(timestamp_ms, *marker, ())],
        base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_type(record: Record) -> ControlType | None:
    """Read the type of a control record. Returns None for a type that is newer than this program.
    Raises KafkaError(INVALID_RECORD)."""
    key = record.key
    if key is None or len(key) < _CONTROL_KEY.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a control record without its type")
    try:
        return ControlType(_CONTROL_KEY.unpack_from(key)[1])
    except ValueError:
        return None


def coordinator_epoch(record: Record) -> int:
    """Read the coordinator epoch in the value of an end-of-transaction marker. Raises
    KafkaError(INVALID_RECORD)."""
    if record.value is None or len(record.value) < _END_TXN_MARKER.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a transaction marker without its epoch")
    return _END_TXN_MARKER.unpack_from(record.value)[1]
