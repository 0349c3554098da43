"""Reads a partition whole, with checksums on, through librdkafka."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import confluent_kafka

from clients.topics import TIMEOUT_S, wait_until


@contextlib.contextmanager
def consumer_of(bootstrap: str, group: str) -> Iterator[confluent_kafka.Consumer]:
    """A consumer that commits only when told to; closed at the end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 100,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read_all(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[int, bytes]]:
    """Every (offset, value) of a partition, from its beginning to its high watermark."""
    found = read_records(bootstrap, topic, partition)
    return [(message.offset() or 0, message.value() or b"") for message in found]


def read_records(
    bootstrap: str, topic: str, partition: int = 0, *, end_min: int = 0
) -> list[confluent_kafka.Message]:
    """Every record of a partition, from its beginning to its high watermark, once that is `end_min` or more.

    (A leader that was paused, and has not heard yet that another leads, tells an old one.)
    """
    with consumer_of(bootstrap, "unused") as consumer:
        where = confluent_kafka.TopicPartition(topic, partition, 0)

        def high_watermark() -> int | None:
            _, end = consumer.get_watermark_offsets(where, timeout=TIMEOUT_S)
            return end if end >= end_min else None

        end = wait_until(f"offset {end_min} of {topic}-{partition}", high_watermark)
        consumer.assign([where])
        found: list[confluent_kafka.Message] = []

        def read() -> bool:
            for message in consumer.consume(10_000, 0.2):
                assert not message.error(), message.error()
                found.append(message)
            return len(found) >= end

        if end:
            wait_until(f"{end} records of {topic}-{partition}", read)
        return found
