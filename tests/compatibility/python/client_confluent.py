"""The scenarios through confluent-kafka: `client_confluent.py SCENARIO BOOTSTRAP NAME [WORD]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka.admin
import expected
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

librdkafka: Any = confluent_kafka.admin  # its types do not tell of all that it has


def produce(producer: Producer, *args: Any, **more: Any) -> None:
    errors: list[Any] = []
    producer.produce(*args, **more, on_delivery=lambda error, _: errors.append(error))
    producer.flush(expected.WAIT_S)
    expected.check("deliveries", errors, [None])


def read(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[Any]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    limit = time.monotonic() + expected.WAIT_S
    while len(found) < count and time.monotonic() < limit:
        message = consumer.poll(1.0)
        if message is not None:
            expected.check("error", message.error(), None)
            found.append(message)
    consumer.close()
    return found


def records(bootstrap: str, topic: str, codec: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 100}
    )
    errors: list[Any] = []
    for row in expected.ROWS:
        producer.produce(
            topic,
            row.value,
            row.key,
            0,
            timestamp=row.timestamp_ms,
            headers=[("n", row.header)],
            on_delivery=lambda error, _: errors.append(error),
        )
    producer.flush(expected.WAIT_S)
    expected.check("deliveries", errors, [None] * expected.COUNT)
    found = [
        expected.Row(m.key(), m.value(), dict(m.headers() or [])["n"], m.timestamp()[1])
        for m in read(bootstrap, topic, expected.COUNT)
    ]
    expected.check("records", found, expected.ROWS)


def group(bootstrap: str, topic: str, protocol: str) -> None:
    def member() -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        return consumer

    values = set[bytes | None]()

    def until(what: str, done: Callable[[], bool], *members: Consumer) -> None:
        limit = time.monotonic() + expected.WAIT_S
        while not done():
            assert time.monotonic() < limit, f"{what}: not within {expected.WAIT_S:.0f} s"
            for each in members:
                for message in each.consume(100, 0.1):
                    expected.check("error", message.error(), None)
                    values.add(message.value())

    def held(consumer: Consumer) -> int:
        return len(consumer.assignment())

    first = member()
    until(
        "all partitions, all records",
        lambda: held(first) == expected.PARTITIONS and expected.all_read(values),
        first,
    )
    first.commit(asynchronous=False)
    second = member()
    until("two partitions each", lambda: held(first) == held(second) == 2, first, second)
    values.clear()
    producer = Producer({"bootstrap.servers": bootstrap})
    for n, value in enumerate(expected.MORE):
        produce(producer, topic, value, partition=n)
    until("more records", lambda: values == set(expected.MORE), first, second)
    first.commit(asynchronous=False)
    second.commit(asynchronous=False)
    second.close()
    until("all partitions again", lambda: held(first) == expected.PARTITIONS, first)
    first.close()
    produce(producer, topic, b"last", partition=0)
    values.clear()
    third = member()
    until("the last record", lambda: bool(values), third)
    expected.check("after the commit", values, {b"last"})
    third.commit(asynchronous=False)
    third.close()


def transactions(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(expected.WAIT_S)
    for word, end in (
        ("aborted", producer.abort_transaction),
        ("committed", producer.commit_transaction),
    ):
        producer.begin_transaction()
        for n in range(5):
            produce(producer, topic, f"{word} {n}".encode(), partition=0)
        end(expected.WAIT_S)
    found = [message.value() for message in read(bootstrap, topic, 5)]
    expected.check("committed", found, [b"committed %d" % n for n in range(5)])
    found = [message.value() for message in read(bootstrap, topic, 10, "read_uncommitted")]
    expected.check("uncommitted", len(found), 10)


def admin(bootstrap: str, topic: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    config = {"cleanup.policy": "compact"}
    names = [topic, topic + "-gone"]
    for future in client.create_topics([NewTopic(n, 3, 1, config=config) for n in names]).values():
        future.result(expected.WAIT_S)
    found = client.list_topics(topic, expected.WAIT_S).topics[topic]
    expected.check("partitions", len(found.partitions), 3)

    def value(name: str) -> str | None:
        asked = client.describe_configs(
            [librdkafka.ConfigResource(librdkafka.ResourceType.TOPIC, topic)]
        )
        [future] = asked.values()
        return future.result(expected.WAIT_S)[name].value

    expected.check("cleanup.policy", value("cleanup.policy"), "compact")
    change = librdkafka.ConfigEntry(
        "retention.ms", "123456", incremental_operation=librdkafka.AlterConfigOpType.SET
    )
    [changed] = client.incremental_alter_configs(
        [
            librdkafka.ConfigResource(
                librdkafka.ResourceType.TOPIC, topic, incremental_configs=[change]
            )
        ]
    ).values()
    changed.result(expected.WAIT_S)
    expected.check("retention.ms", value("retention.ms"), "123456")
    [deleted] = client.delete_topics([topic + "-gone"]).values()
    deleted.result(expected.WAIT_S)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
