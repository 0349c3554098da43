"""Creates the records that pk and Spark's own Kafka connector read."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

RECORD_BYTES = 100
TIMEOUT_S = 60.0


def fill(bootstrap: str, topic: str, records: int, partitions: int) -> None:
    """Create the topic, with records of 100 bytes and short keys."""
    new: object = NewTopic(topic, partitions, 1)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([new])[topic].result(TIMEOUT_S)  # type: ignore[list-item]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "linger.ms": 20,
            "batch.size": 200_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    padding = b"x" * (RECORD_BYTES - 20)
    for n in range(records):
        while True:
            try:
                producer.produce(
                    topic, b"%020d" % n + padding, b"k%d" % (n % 1000), partition=n % partitions
                )
                break
            except BufferError:
                producer.poll(0.1)
        if n % 1000 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def in_turn(names: list[str], number: int) -> list[str]:
    """Return the order of the systems in a round. It begins with another system in each round."""
    return names if number % 2 == 0 else names[::-1]
