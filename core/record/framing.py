"""The framing of a batch's only record: all its bytes but its key and value.

A producer that sends small things one at a time frames each as the one before: the same lengths,
the same deltas, and only the content differs. What `validate_records` says of a record depends on
its framing alone, so that of a batch framed as one that passed is known by comparing a few bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pk.core.record.batch import HEADER_BYTES, BatchHeader
from pk.core.record.varint import INT_BYTES_MAX, LONG_BYTES_MAX, read_varint

FRAMED_BYTES_MAX: Final = 16 * 1024
"""Of larger batches no framing is made: the walk through their one record is a small part of what
they cost."""
_NO_HEADERS: Final = b"\0"


class Framing(NamedTuple):
    """Of the only record of a batch, one without headers."""

    size: int
    """The batch's bytes."""
    head: bytes
    """The record's bytes before its key."""
    key_end: int
    """Where its key ends, counted from the start of the batch."""
    value_length: bytes
    """What stands between key and value."""
    timestamp_delta: int
    """In ms."""

    def frames(self, data: bytearray, start: int, stop: int) -> bool:
        """Whether the only record of the batch from `start` to `stop` is framed like this."""
        size, head, key_end, value_length, _ = self
        return (
            stop - start == size
            and data.startswith(head, start + HEADER_BYTES)
            and data.startswith(value_length, start + key_end)
            and not data[stop - 1]
        )


def framing_of(batch: memoryview, header: BatchHeader) -> Framing | None:
    """The framing of a batch that `validate_records` let pass, whose one record is not compressed;
    None where it has headers, or the batch is large."""
    if header.size > FRAMED_BYTES_MAX:
        return None
    with batch[HEADER_BYTES : header.size] as body:
        record = bytes(body)
    _, at = read_varint(record, 0, INT_BYTES_MAX)
    delta, at = read_varint(record, at + 1, LONG_BYTES_MAX)
    _, at = read_varint(record, at, INT_BYTES_MAX)
    key_bytes, at = read_varint(record, at, INT_BYTES_MAX)
    key_end = at + max(key_bytes, 0)
    value_bytes, value_at = read_varint(record, key_end, INT_BYTES_MAX)
    if record[value_at + max(value_bytes, 0) :] != _NO_HEADERS:
        return None
    return Framing(
        header.size, record[:at], HEADER_BYTES + key_end, record[key_end:value_at], delta
    )
