"""Records of every kind, each made from its number, and producing them with librdkafka."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clients.fixtures import Kafka
from confluent_kafka import Producer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FLUSH_TIMEOUT_S = 120.0
# Five hours ago: brokers delete records that are a week old, and refuse records an hour ahead.
BASE_MS = (time.time_ns() // 1_000_000_000 - 5 * 3600) * 1000


class Made(NamedTuple):
    """A record in its produced form."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def records(count: int, partitions: int, seed: int = 1) -> Iterator[Made]:
    """`count` records: keys and values null, empty, binary and long; no, one, repeated and null
    headers."""
    chance = random.Random(seed)
    for n in range(count):
        kind = chance.randrange(20)
        key = None if kind < 3 else b"" if kind == 3 else b"key-%d" % (n % 500)
        value: bytes | None = b'{"n":%d,"at":"%s"}' % (n, b"x" * (n % 90))
        if kind == 5:
            value = None
        elif kind == 6:
            value = b""
        elif kind == 7:
            value = chance.randbytes(n % 200)
        elif n % 10_007 == 0:
            value = chance.randbytes(300_000)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if kind >= 15:
            headers = (("trace", b"%d" % n),)
        if kind == 19:
            headers = (*headers, ("trace", b""), ("grün", None))
        yield Made(chance.randrange(partitions), BASE_MS + n * 7 - kind, key, value, headers)


def produce(
    kafka: Kafka,
    topic: str,
    made: Iterable[Made],
    codec: str = "none",
    batch_bytes: int = 1_000_000,
) -> dict[int, list[Made]]:
    """Appends the records. Returns the records of each partition, in order."""
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "log_level": 0,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
            "batch.size": batch_bytes,
        }
    )

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    got: dict[int, list[Made]] = {}
    for record in made:
        while True:
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=list(record.headers),
                    on_delivery=delivered,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        got.setdefault(record.partition, []).append(record)
    assert producer.flush(FLUSH_TIMEOUT_S) == 0
    assert not failed, failed[:3]
    return got
