"""The walk through the records of a producer's batch: every length, delta and count is looked at, none is believed.

It runs on every produce, so most of this file is about speed; the careful `_record` decides whatever the quick path
does not recognise, and is the only place that words a refusal.
"""

from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.varint import INT_BYTES_MAX, LONG_BYTES_MAX, read_varint

Buffer = bytes | bytearray | memoryview

RECORD_BYTES_MIN: Final = 7
"""A record without key, value or headers."""


class RecordError(KafkaError):
    """INVALID_RECORD on account of one record: `batch_index` is its number in the batch (ProduceResponse names it)."""

    def __init__(self, batch_index: int, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)
        self.batch_index = batch_index


def invalid_record(index: int, what: str) -> RecordError:
    """The error that says what is wrong with record number `index`."""
    return RecordError(index, f"record {index} {what}")


def walk(body: Buffer, count: int, compacted: bool) -> tuple[int, int]:
    """Least and greatest timestamp delta of the `count` records that fill `body`.

    Raises RecordError or KafkaError(INVALID_RECORD) where they do not fill it, or are not numbered 0, 1, 2….
    """
    if count * RECORD_BYTES_MIN > len(body):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records in {len(body)} bytes")
    data = body if isinstance(body, bytes) else bytes(body)
    position = 0
    least, most = 1 << 63, -1 << 63
    for index in range(count):
        position, delta = _record(data, position, index, compacted)
        least = min(least, delta)
        most = max(most, delta)
    if position != len(data):
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"{len(data) - position} bytes after the last record"
        )
    return least, most


def _record(data: bytes | memoryview, start: int, index: int, compacted: bool) -> tuple[int, int]:
    """Position after the record at `start`, and its timestamp delta. Raises RecordError."""
    try:
        size, position = read_varint(data, start, INT_BYTES_MAX)
        stop = position + size
        if size < RECORD_BYTES_MIN - 1 or stop > len(data):
            raise invalid_record(index, f"claims {size} bytes, {len(data) - position} are left")
        delta, position = read_varint(data, position + 1, LONG_BYTES_MAX)
        offset_delta, position = read_varint(data, position, INT_BYTES_MAX)
        if offset_delta != index:
            raise invalid_record(index, f"has offset delta {offset_delta}")
        size, position = _skip(data, position, -1, index)
        if size < 0 and compacted:
            raise invalid_record(index, "has no key, and the topic is compacted")
        _, position = _skip(data, position, -1, index)
        headers, position = read_varint(data, position, INT_BYTES_MAX)
        if not 0 <= headers <= stop - position:
            raise invalid_record(index, f"claims {headers} headers")
        for _ in range(headers):
            _, position = _skip(data, position, 0, index)
            _, position = _skip(data, position, -1, index)
    except IndexError:
        raise invalid_record(index, "is cut off") from None
    except RecordError:
        raise
    except KafkaError as e:
        raise invalid_record(index, f"has {e.message}") from None
    if position != stop:
        raise invalid_record(index, f"claims {stop - start} bytes but has {position - start}")
    return stop, delta


def _skip(data: bytes | memoryview, position: int, least: int, index: int) -> tuple[int, int]:
    """A length of at least `least` (-1 is null) and the position after that many bytes."""
    size, position = read_varint(data, position, INT_BYTES_MAX)
    if size < least:
        raise invalid_record(index, f"has a length of {size}")
    return size, position + max(size, 0)
