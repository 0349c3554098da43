"""Reads partitions through librdkafka: whole, with checksums on, or as committed records come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import confluent_kafka

from clients.topics import TIMEOUT_S, wait_until

LEADER_CHANGES = (
    confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
    confluent_kafka.KafkaError.LEADER_NOT_AVAILABLE,
    confluent_kafka.KafkaError.FENCED_LEADER_EPOCH,
    confluent_kafka.KafkaError.UNKNOWN_LEADER_EPOCH,
    confluent_kafka.KafkaError.OFFSET_NOT_AVAILABLE,
)
"""The errors that brokers answer until all of them, and the client, know the new leader."""


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
    """Every record of a partition, from its beginning to its high watermark, once that is `end_min`
    or more.

    (A leader that was paused, and has not heard yet that another leads, tells an old one.)
    """
    with consumer_of(bootstrap, "unused") as consumer:
        where = confluent_kafka.TopicPartition(topic, partition, 0)

        def high_watermark() -> int | None:
            try:
                _, end = consumer.get_watermark_offsets(where, timeout=TIMEOUT_S)
            except confluent_kafka.KafkaException as e:
                if e.args[0].code() not in LEADER_CHANGES:
                    raise
                return None
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


class CommittedReader:
    """Reads partition 0 of a topic as committed records come. Closed at the end of the block."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: list[bytes] = []
        self.offsets: list[int] = []
        self._topic = topic
        config = {"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0}
        self._consumer = confluent_kafka.Consumer({**config, "isolation.level": "read_committed"})
        self._consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def wait_for(self, count: int, timeout: float = TIMEOUT_S) -> None:
        """Read until there are this many."""

        def read() -> bool:
            for message in self._consumer.consume(10_000, 0.2):
                if message.error() is None:
                    self.values.append(message.value() or b"")
                    self.offsets.append(message.offset() or 0)
            return len(self.values) >= count

        wait_until(f"{count} records of {self._topic}", read, timeout)
