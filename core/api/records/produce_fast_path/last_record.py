"""The framing of the last record that a client sent in a batch of its own, as the fast path
remembers it.

A producer that sends small records one at a time frames each like the previous one: the lengths and
deltas are the same, and only the content differs. The result of `validate_records` for a record
depends only on its framing. Therefore, if a batch of one record passed, another one with the same
framing passes, too, and a comparison of a few bytes is enough.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pk.core.config import TopicConfig
from pk.core.record.batch import HEADER_BYTES, BatchHeader, Timestamps
from pk.core.record.uniform import shape_of
from pk.core.record.validation import PRODUCER, ValidatedBatch
from pk.core.record.varint import LONG_BYTES_MAX, read_varint

FRAMED_BYTES_MAX: Final = 16 * 1024
"""The size of the largest batch whose framing is remembered, in bytes. For a larger batch, the
check of its one record is a small part of the cost."""


class Framing(NamedTuple):
    """All bytes but the key and the value of a batch's only record, which has no headers."""

    size: int
    """The size of the batch in bytes."""
    head: bytes
    """The record's bytes before its key."""
    key_end: int
    """The position after the key, counted from the start of the batch."""
    value_length: bytes
    """The bytes between key and value."""
    timestamp_delta: int
    """The record's timestamp minus that of the batch, in ms."""

    def frames(self, data: bytearray, start: int, stop: int) -> bool:
        """Return whether the batch from `start` to `stop` has this framing."""
        size, head, key_end, value_length, _ = self
        return (
            stop - start == size
            and data.startswith(head, start + HEADER_BYTES)
            and data.startswith(value_length, start + key_end)
            and not data[stop - 1]
        )


def framing_of(batch: memoryview, header: BatchHeader) -> Framing | None:
    """Return the framing of a batch that `validate_records` accepted and that has one uncompressed
    record. Returns None if the record has headers, or the batch is large."""
    if header.size > FRAMED_BYTES_MAX:
        return None
    with batch[HEADER_BYTES : header.size] as body:
        record = bytes(body)
    shape = shape_of(record, 0)
    if shape is None or shape.headers:
        return None
    timestamp_delta, _ = read_varint(record, shape.timestamps.start, LONG_BYTES_MAX)
    value_length = record[shape.key_stop : shape.value]
    key_end = HEADER_BYTES + shape.key_stop
    return Framing(header.size, record[: shape.key], key_end, value_length, timestamp_delta)


class LastRecord:
    """The framing of the last record that a client sent in a batch of its own."""

    __slots__ = ("_config", "_framing", "_size", "_unframed_size")

    def __init__(self) -> None:
        self._framing: Framing | None = None
        self._config: TopicConfig | None = None
        """The config of the topic that accepted the record."""
        self._size = 0
        """The size of the last batch with a different framing. The framing is computed only for the
        second batch of a size."""
        self._unframed_size = 0
        """The size of the last batch for which `framing_of` returned None."""

    def validate(
        self,
        data: bytearray,
        start: int,
        batch: memoryview,
        header: BatchHeader,
        config: TopicConfig,
        bounds: Timestamps,
    ) -> ValidatedBatch | None:
        """Return the result of `validate_inline` for `batch`, which begins at `start` in `data`, or
        None if its framing differs, so that `validate_inline` must check it."""
        framing = self._framing
        if (
            framing is None
            or config is not self._config
            or header.count != 1
            or header.attributes
            or not framing.frames(data, start, start + header.size)
        ):
            return None
        timestamp = header.base_timestamp + framing.timestamp_delta
        if not bounds[0] <= timestamp <= bounds[1]:
            return None
        return ValidatedBatch(batch, header, Timestamps(timestamp, timestamp))

    def remember(self, batch: memoryview, header: BatchHeader, config: TopicConfig) -> None:
        """Remember the framing of a batch that `validate_inline` accepted, if it has only one
        record."""
        size = header.size
        if header.count != 1 or size == self._unframed_size:
            return
        if size != self._size:
            self._size = size
        elif not header.attributes and config.compression_type == PRODUCER:
            self._framing, self._config = framing_of(batch, header), config
            if self._framing is None:
                self._unframed_size = size
