"""The frames of a producer's requests and their responses, as bytes: repeated parts are compared or
copied, not decoded.

A producer's requests have the same header, `acks` and timeout every time; only the correlation id
and the topics differ. Therefore a `FramePattern` is made from the first request, and `batches` of a
later frame compares those bytes, then steps through the topics to find each batch.

The response to an appended request repeats parts of the request: its topics with the same encoding
and number of partitions, and each partition's index. The offsets are between these parts.
`Batch.before` is the part of the response before a batch's offsets.

The versions are 3 to 13. Those from 9 on are flexible (compact lengths, tagged fields), and 13
identifies topics by id. A rare request (a transactional id, tagged fields, a topic name or a list
of more than 126 elements, bytes left over) does not match.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, Self

import msgspec

from pk.core.errors import ProtocolError
from pk.core.wire.emit import uvarint_tail
from pk.core.wire.header import parse_request_header

PRODUCE: Final = 0
VERSION_FIRST: Final = 3
VERSION_LOG_START: Final = 5
VERSION_RECORD_ERRORS: Final = 8
VERSION_FLEXIBLE: Final = 9
VERSION_TOPIC_ID: Final = 13
VERSION_LAST: Final = 13
BATCHES_MAX: Final = 256
"""A request with more batches is handled by the general path."""

_ID_BYTES: Final = 16
_VARINT_MAX: Final = 127
"""The greatest compact length that takes one byte. A compact length is one more than the length."""
_NO_ERROR: Final = b"\0\0"

_ENDS: Final = b"\0\0\0"
"""The tagged fields of a partition, its topic and the request."""
_KEY: Final = b"\0\0"
_PREFIX: Final = Struct(">ii")
_ACKS_TIMEOUT: Final = Struct(">hi")
_NULL: Final = b"\xff\xff"
_unpack_int16 = Struct(">h").unpack_from
_unpack_int32 = Struct(">i").unpack_from
_unpack_acks = _ACKS_TIMEOUT.unpack_from
_pack_two = Struct(">qq").pack
_prefix = _PREFIX.pack


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The position of one partition's batch in a frame."""

    topic: bytes
    """The topic's name in UTF-8; from version 13 on its id."""
    partition: int
    entry: int
    """The index of the topic in the request. A request may list the same topic twice."""
    before: bytes
    """The bytes of the response between the previous batch's offsets (or the correlation id) and
    this batch's."""
    start: int
    stop: int


class _Single(NamedTuple):
    """A request for one partition: a producer that sends one is likely to send more of them."""

    tail: bytes
    """The bytes between the correlation id and the length of the batch."""
    topic: bytes
    partition: int
    before: bytes


class FramePattern:
    """The bytes that the requests of one producer have in common."""

    __slots__ = (
        "_answer_end",
        "_flexible",
        "_head",
        "_partition_end",
        "_single",
        "_tail",
        "_topics_at",
        "acks",
        "client_id",
        "pack_offsets",
        "timeout_ms",
        "version",
    )

    def __init__(
        self,
        version: int,
        client_id: str | None,
        acks: int,
        timeout_ms: int,
        head: bytes,
        tail: bytes,
    ) -> None:
        """`head` is the bytes before the correlation id, `tail` those between it and the topics.
        Call `of` instead."""
        self.version, self.client_id = version, client_id
        self.acks, self.timeout_ms = acks, timeout_ms
        self._head, self._tail = head, tail
        self._topics_at = 8 + len(tail)
        self._flexible = flexible = version >= VERSION_FLEXIBLE
        self._single: _Single | None = None
        with_start = version >= VERSION_LOG_START
        self.pack_offsets = Struct(">qqq").pack if with_start else _without_start
        """Packs a partition's offsets for the response: base offset, log append time and, from
        version 5 on, log start offset."""
        self._partition_end = b""
        if flexible:
            self._partition_end = b"\1\0\0"  # no record errors, no message, no tagged fields
        elif version >= VERSION_RECORD_ERRORS:
            self._partition_end = b"\0\0\0\0\xff\xff"
        self._answer_end = self._partition_end + (b"\0\0\0\0\0\0" if flexible else b"\0\0\0\0")
        """The end of a response. A flexible one ends with the topic's tagged fields, the throttle
        time and the response's tagged fields."""

    @classmethod
    def of(cls, frame: bytes | bytearray | memoryview) -> Self | None:
        """Return the pattern of a request, without its size, or None if such requests are not for
        the fast path."""
        try:
            head = parse_request_header(frame)
            if head.api_key != PRODUCE or not VERSION_FIRST <= head.api_version <= VERSION_LAST:
                return None
            at = head.body_position
            null = b"\0" if head.api_version >= VERSION_FLEXIBLE else _NULL
            if bytes(frame[at : at + len(null)]) != null:
                return None  # a transactional id
            at += len(null)
            acks, timeout_ms = _unpack_acks(frame, at)
        except (ProtocolError, StructError):
            return None
        if not -1 <= acks <= 1:
            return None
        tail = bytes(frame[8 : at + _ACKS_TIMEOUT.size])
        return cls(head.api_version, head.client_id, acks, timeout_ms, bytes(frame[:4]), tail)

    def batches(self, data: bytearray, start: int, end: int) -> list[Batch] | None:
        """Return the batches of the frame from `start` to `end`: at least one, all of them
        non-empty. Returns None if the frame does not match, or contains anything else."""
        single = self._single
        try:
            if not data.startswith(self._head, start):
                return None
            if single is None or not data.startswith(single.tail, start + 8):
                if not data.startswith(self._tail, start + 8):
                    return None
                return (self._flexible_batches if self._flexible else self._nonflexible_batches)(
                    data, start, end
                )
            tail, topic, index, before = single
            at = start + 8 + len(tail)
            if self._flexible:
                size = data[at]
                at += 1
                if size > _VARINT_MAX:
                    high = data[at]
                    if high <= _VARINT_MAX:  # most batches: their length takes two bytes
                        size, at = size & _VARINT_MAX | high << 7, at + 1
                    else:
                        size, at = uvarint_tail(data, at, size)
                stop = at + size - 1
                if stop + 3 != end or not data.startswith(_ENDS, stop):
                    return None
            else:
                stop = at + 4 + _unpack_int32(data, at)[0]
                at += 4
                if stop != end:
                    return None
        except (IndexError, StructError, ProtocolError):
            return None
        return [Batch(topic, index, 0, before, at, stop)] if at < stop else None

    def _flexible_batches(self, data: bytearray, start: int, end: int) -> list[Batch] | None:
        """Return the batches of a flexible request for any partitions."""
        found: list[Batch] = []
        begin = at = start + self._topics_at
        topics = data[at]
        at += 1
        if not 1 < topics <= _VARINT_MAX:
            return None
        records_at, before = 0, b"\0"  # the tagged fields of the response's header
        for entry in range(topics - 1):
            if self.version >= VERSION_TOPIC_ID:
                topic = bytes(data[at : at + _ID_BYTES])
                at += _ID_BYTES
            else:
                size = data[at]
                topic = bytes(data[at + 1 : at + size])
                at += size
                if not 1 < size <= _VARINT_MAX:
                    return None
            partitions = data[at]
            at += 1
            if not 1 < partitions <= _VARINT_MAX:
                return None
            before += bytes(data[begin:at])
            if len(found) + partitions > BATCHES_MAX:
                return None
            for _ in range(partitions - 1):
                index = _unpack_int32(data, at)[0]
                before += bytes(data[at : at + 4]) + _NO_ERROR
                size = data[at + 4]
                records_at = at + 4
                at += 5
                if size > _VARINT_MAX:
                    size, at = uvarint_tail(data, at, size)
                stop = at + size - 1
                if not at < stop < end or data[stop]:
                    return None
                found.append(Batch(topic, index, entry, before, at, stop))
                at, before = stop + 1, self._partition_end
            if data[at]:
                return None
            at += 1
            begin, before = at, before + b"\0"
        if at + 1 != end or data[at]:
            return None
        self._remember(found, data, start, records_at)
        return found

    def _nonflexible_batches(self, data: bytearray, start: int, end: int) -> list[Batch] | None:
        """Return the batches of a request of a version that is not flexible, for any partitions."""
        found: list[Batch] = []
        begin = at = start + self._topics_at
        topics = _unpack_int32(data, at)[0]
        at += 4
        if not 0 < topics <= _VARINT_MAX:
            return None
        records_at, before = 0, b""
        for entry in range(topics):
            size = _unpack_int16(data, at)[0]
            at += 2
            topic = bytes(data[at : at + size])
            at += size
            if size <= 0 or at > end:
                return None
            partitions = _unpack_int32(data, at)[0]
            at += 4
            if not 0 < partitions <= _VARINT_MAX:
                return None
            before += bytes(data[begin:at])
            if len(found) + partitions > BATCHES_MAX:
                return None
            for _ in range(partitions):
                index = _unpack_int32(data, at)[0]
                before += bytes(data[at : at + 4]) + _NO_ERROR
                records_at = at + 4
                at += 8
                stop = at + _unpack_int32(data, records_at)[0]
                if not at < stop <= end:
                    return None
                found.append(Batch(topic, index, entry, before, at, stop))
                at, before = stop, self._partition_end
            begin = at
        if at != end:
            return None
        self._remember(found, data, start, records_at)
        return found

    def _remember(self, found: list[Batch], data: bytearray, start: int, records_at: int) -> None:
        """Expect the same partition again, if the request has only one. `records_at` is the
        position of the length of its batch."""
        if len(found) == 1:
            batch = found[0]
            tail = bytes(data[start + 8 : records_at])
            self._single = _Single(tail, batch.topic, batch.partition, batch.before)

    def answer(self, correlation_id: int, pieces: list[bytes], throttle_ms: int = 0) -> bytes:
        """Return the response to a request whose batches are all appended. `pieces` are
        `Batch.before` and the packed offsets of each batch."""
        pieces.append(self._answer_end if not throttle_ms else self._throttled_end(throttle_ms))
        body = b"".join(pieces)
        return _prefix(len(body) + 4, correlation_id) + body

    def _throttled_end(self, throttle_ms: int) -> bytes:
        """Return the end of a response that tells its client to wait."""
        end, after = self._answer_end, 1 if self._flexible else 0
        at = len(end) - 4 - after
        return end[:at] + throttle_ms.to_bytes(4, "big") + end[at + 4 :]


def _without_start(base_offset: int, log_append_time_ms: int, _: int) -> bytes:
    """Return a partition's packed offsets for versions before 5."""
    return _pack_two(base_offset, log_append_time_ms)


def is_produce(data: bytearray, start: int) -> bool:
    """Return whether the frame that begins at `start` is a Produce request."""
    return data.startswith(_KEY, start)


def correlation_id_of(data: bytearray, start: int) -> int:
    """Return the correlation id of the frame that begins at `start`."""
    return _unpack_int32(data, start + 4)[0]
