"""Batches of 100 records of which ten are bad, or the batch itself is, and how a broker refuses
them.

A larger one has as many thousands, ten of them bad. Used with pk and with Apache Kafka
(test_refused_records.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import pack_into
from typing import Any

from pk.core.record.batch import HEADER_BYTES, write_crc
from pk.core.record.build import seal
from pk.core.record.compress import Codec
from pk.core.record.varint import encode_varint
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

VERSIONS = range(3, 14)
"""The versions of Produce that Apache Kafka 4.3.1 serves."""
CODECS = (Codec.NONE, Codec.GZIP, Codec.ZSTD)
POLICIES = ("delete", "compact")
LONG_AGO_MS = 1_000_000_000_000
FAR_AHEAD_MS = 4_000_000_000_000

ATTRIBUTES_AT, LAST_DELTA_AT, PRODUCER_AT, COUNT_AT = 21, 23, 43, 57


@dataclass
class Row:
    """A record, and how it differs from a correct one."""

    offset_delta: int
    timestamp_ms: int
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    size_off: int = 0
    key_size: int | None = None
    value_size: int | None = None
    headers: bytes = b"\0"
    attributes: int = 0

    def to_bytes(self, base_ms: int) -> bytes:
        body = b"".join(
            (
                bytes((self.attributes,)),
                encode_varint(self.timestamp_ms - base_ms),
                encode_varint(self.offset_delta),
                _measured(self.key, self.key_size),
                _measured(self.value, self.value_size),
                self.headers,
            )
        )
        return encode_varint(len(body) + self.size_off) + body


def _measured(data: bytes | None, size: int | None) -> bytes:
    real = -1 if data is None else len(data)
    return encode_varint(real if size is None else size) + (data or b"")


def _all_good(row: Row, number: int) -> None:
    pass


def _as_it_is(batch: bytearray) -> bytearray:
    return batch


@dataclass(frozen=True)
class Case:
    """A reason for which a batch is refused."""

    name: str
    spoil: Callable[[Row, int], None] = _all_good
    """Makes a record bad; it gets the number of the bad record too, 0 to 9."""
    alter: Callable[[bytearray], bytearray] = _as_it_is
    """Makes a batch bad; its CRC is computed again afterwards."""
    crc: bool = True
    extra: bytes = b""
    """Bytes after the last record."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Configs of the topic."""

    def batch(self, codec: Codec, count: int = 100) -> bytearray:
        """The batch, its records' times about now."""
        now_ms = int(time.time() * 1000)
        # Values of different lengths are not of one shape: those of a large batch are walked one
        # by one, in a thread.
        rows = [Row(n, now_ms, value=b"v" * (n % 7)) for n in range(count)]
        for number, row in enumerate(rows[4 :: count // 10]):
            self.spoil(row, number)
        body = b"".join(row.to_bytes(now_ms) for row in rows) + self.extra
        batch = bytearray(HEADER_BYTES) + body
        seal(batch, count, now_ms, max(row.timestamp_ms for row in rows), codec=codec)
        batch = self.alter(batch)
        if self.crc and batch:
            write_crc(batch)
        return batch


def _setting(**fields: Any) -> Callable[[Row, int], None]:
    def spoil(row: Row, number: int) -> None:
        for name, value in fields.items():
            setattr(row, name, value)

    return spoil


def _with(at: int, layout: str, value: int) -> Callable[[bytearray], bytearray]:
    def alter(batch: bytearray) -> bytearray:
        pack_into(layout, batch, at, value)
        return batch

    return alter


def _with_attributes(bits: int) -> Callable[[bytearray], bytearray]:
    def alter(batch: bytearray) -> bytearray:
        batch[ATTRIBUTES_AT + 1] |= bits
        return batch

    return alter


def _mixed(row: Row, number: int) -> None:
    """Some have no key, some are too late, one is both."""
    if number <= 5:
        row.key = None
    if number >= 5:
        row.timestamp_ms = FAR_AHEAD_MS


def _offset_delta(row: Row, number: int) -> None:
    row.offset_delta += 1


def _keyless_then_cut(row: Row, number: int) -> None:
    if number < 9:
        row.key = None
    else:
        row.size_off = 1


def _one(row: Row, number: int) -> None:
    if number == 0:
        row.key = None


def _harmed(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


BEFORE_MAX = {"message.timestamp.before.max.ms": "86400000"}

CASES = [
    Case("good"),
    Case("no key", _setting(key=None)),
    Case("one without a key", _one),
    Case("too late", _setting(timestamp_ms=FAR_AHEAD_MS)),
    Case("too early", _setting(timestamp_ms=LONG_AGO_MS), configs=BEFORE_MAX),
    Case("early, with no bound", _setting(timestamp_ms=LONG_AGO_MS)),
    Case("no key or too late", _mixed),
    Case(
        "too late, stamped by the broker",
        _setting(timestamp_ms=FAR_AHEAD_MS),
        configs={"message.timestamp.type": "LogAppendTime"},
    ),
    Case("offset delta", _offset_delta),
    Case("no key, and one is too long", _keyless_then_cut),
    Case("too long", _setting(size_off=1)),
    Case("too short", _setting(size_off=-1)),
    Case("a negative length", _setting(size_off=-100)),
    Case("key length -2", _setting(key=None, key_size=-2)),
    Case("key length beyond the record", _setting(key_size=50)),
    Case("value length -2", _setting(value=None, value_size=-2)),
    Case("header count -1", _setting(headers=encode_varint(-1))),
    Case("header count 100", _setting(headers=encode_varint(100))),
    Case("header without a key", _setting(headers=b"\2\1\0")),
    Case("record attributes", _setting(attributes=1)),
    Case("one record more than counted", alter=_with(COUNT_AT, ">i", 99)),
    Case("one record fewer than counted", alter=_with(COUNT_AT, ">i", 101)),
    Case("last offset delta", alter=_with(LAST_DELTA_AT, ">i", 100)),
    Case("bytes after the last record", extra=b"\0\0\0\0"),
    Case("no records", alter=lambda batch: _with(COUNT_AT, ">i", 0)(batch)),
    Case("base offset", alter=_with(0, ">q", 5)),
    Case("control batch", alter=_with_attributes(1 << 5)),
    Case("log append time", alter=_with_attributes(1 << 3)),
    Case("producer id without a sequence", alter=_with(PRODUCER_AT, ">q", 1000)),
    Case("CRC", alter=_harmed, crc=False),
    Case("unknown codec", alter=_with_attributes(7)),
    Case("too large", configs={"max.message.bytes": "100"}),
    Case("two batches", alter=lambda batch: batch + batch),
    Case("nothing", alter=lambda batch: bytearray()),
    Case("magic 1", alter=_with(16, ">b", 1)),
    Case("magic 3", alter=_with(16, ">b", 3)),
    Case("a size of 10", alter=_with(8, ">i", 10), crc=False),
    Case("cut off", alter=lambda batch: batch[:-1], crc=False),
]


def request(topic: str, topic_id: bytes, batch: bytearray, version: int) -> ProduceRequest:
    """The request that brings a batch."""
    data = PartitionProduceData(index=0, records=memoryview(batch))
    named = TopicProduceData(name=topic) if version < 13 else TopicProduceData(topic_id=topic_id)
    named.partition_data = [data]
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[named])


def answered(answer: PartitionProduceResponse, topic: str) -> dict[str, Any]:
    """The answer without the parts that differ from run to run. Records with the same message share
    one entry, in which N replaces the number of each."""
    errors: dict[str, list[int]] = {}
    for error in answer.record_errors:
        message = _masked(error.batch_index_error_message, topic) or ""
        message = message.replace(f"with offset {error.batch_index} is", "with offset N is")
        errors.setdefault(message, []).append(error.batch_index)
    return {
        "error": answer.error_code,
        "message": _masked(answer.error_message, topic),
        "records": errors,
    }


def _masked(message: str | None, topic: str) -> str | None:
    """Without the topic's name and the time of day."""
    if message is None:
        return None
    return re.sub(r"\[-?\d+, \d+\]", "[…]", message.replace(topic, "TOPIC"))
