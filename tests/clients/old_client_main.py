"""The other end of old_clients.py: a line in is [function, arguments…], a line out its result or
error.

Run with kafka-python 2.0.6, six and xxhash in front of the module path.
"""

from __future__ import annotations

import base64
import json
import sys
import traceback
from typing import Any

import six  # pyright: ignore[reportMissingModuleSource]

sys.modules["kafka.vendor.six"] = six
sys.modules["kafka.vendor.six.moves"] = six.moves

import kafka
from kafka.record.legacy_records import (  # pyright: ignore[reportMissingImports]
    LegacyRecordBatch,
    LegacyRecordBatchBuilder,
)
from kafka.record.memory_records import MemoryRecords
from kafka.structs import TopicPartition
from kafka.version import __version__

BATCH_BYTES = 1 << 30
POLL_MS = 30_000
ASKED_MS = 60_000
"""How long it may take to find out what the broker speaks."""


Api = list[int] | None
"""The Kafka version to speak to; None: what the client finds out."""


def spoken(api: Api) -> tuple[int, ...] | None:
    return None if api is None else tuple(api)


def version() -> str:
    return __version__


def build(magic: int, codec: int, rows: list[Any]) -> bytes:
    """A message set of rows (offset, timestamp, key, value), as the old producer makes it."""
    builder = LegacyRecordBatchBuilder(magic, codec, BATCH_BYTES)
    for row in rows:
        assert builder.append(*row) is not None
    return bytes(builder.build())


def read(data: bytes) -> list[Any]:
    """The rows of a message set, as the old consumer sees them."""
    rows = []
    records = MemoryRecords(data)
    while True:
        batch = records.next_batch()
        if batch is None:
            return rows
        assert isinstance(batch, LegacyRecordBatch)
        assert batch.validate_crc()
        rows += [
            (r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in batch
        ]


def produce(bootstrap: str, api: Api, topic: str, codec: Any, rows: list[Any]) -> Any:
    """Send rows (timestamp, key, value) to partition 0; their offsets and timestamps as told."""
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        api_version=spoken(api),
        api_version_auto_timeout_ms=ASKED_MS,
        compression_type=codec,
        linger_ms=20,
        acks=-1,
        retries=0,
    )
    try:
        futures = [
            producer.send(topic, value, key, partition=0, timestamp_ms=timestamp)
            for timestamp, key, value in rows
        ]
        producer.flush(60)
        return [(f.get(30).offset, f.get(30).timestamp) for f in futures]
    finally:
        producer.close(10)


def consume(
    bootstrap: str, api: Api, topic: str, count: int, group: str | None, start: int | None
) -> Any:
    """Read `count` records: (partition, offset, timestamp, key, value). A consumer in a group
    commits them."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        api_version=spoken(api),
        api_version_auto_timeout_ms=ASKED_MS,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=POLL_MS,
    )
    try:
        if group is None:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            if start is not None:
                consumer.seek(partition, start)
        else:
            consumer.subscribe([topic])
        rows = []
        if count:
            for r in consumer:
                rows.append((r.partition, r.offset, r.timestamp, r.key, r.value))
                if len(rows) == count:
                    break
        if group is not None:
            consumer.commit()
        return rows
    finally:
        consumer.close()


def ends(bootstrap: str, api: Api, topic: str, times: list[int]) -> Any:
    """(first, last) offsets of partition 0, and the offsets for times."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        api_version=spoken(api),
        api_version_auto_timeout_ms=ASKED_MS,
    )
    try:
        partition = TopicPartition(topic, 0)
        first = consumer.beginning_offsets([partition])[partition]
        last = consumer.end_offsets([partition])[partition]
        found = []
        for time in times:
            answer = consumer.offsets_for_times({partition: time})[partition]
            found.append(None if answer is None else (answer.offset, answer.timestamp))
        return first, last, found
    finally:
        consumer.close()


def committed(bootstrap: str, api: Api, topic: str, group: str) -> Any:
    """The committed offset of partition 0."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        api_version=spoken(api),
        api_version_auto_timeout_ms=ASKED_MS,
        group_id=group,
    )
    try:
        return consumer.committed(TopicPartition(topic, 0))
    finally:
        consumer.close()


def unpack(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return [unpack(item) for item in value] if isinstance(value, list) else value


def pack(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return {"b64": base64.b64encode(value).decode()}
    return [pack(item) for item in value] if isinstance(value, (list, tuple)) else value


def main() -> None:
    functions = {f.__name__: f for f in (version, build, read, produce, consume, ends, committed)}
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer: dict[str, Any] = {"result": pack(functions[name](*map(unpack, arguments)))}
        except Exception:  # noqa: BLE001 - the other process says what was raised
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
