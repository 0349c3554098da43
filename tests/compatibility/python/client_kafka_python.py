"""The scenarios through kafka-python: `client_kafka_python.py SCENARIO BOOTSTRAP NAME [WORD]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import expected
import kafka
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

# Their types want literals, and lack some names.
KafkaConsumer: Any = kafka.KafkaConsumer
KafkaProducer: Any = kafka.KafkaProducer
TopicPartition: Any = vars(kafka)["TopicPartition"]


def read(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[Any]:
    consumer: Any = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    where = TopicPartition(topic, 0)
    consumer.assign([where])
    consumer.seek(where, 0)
    found: list[Any] = []
    limit = time.monotonic() + expected.WAIT_S
    while len(found) < count and time.monotonic() < limit:
        for batch in consumer.poll(1000).values():
            found += batch
    consumer.close()
    return found


def records(bootstrap: str, topic: str, codec: str) -> None:
    producer: Any = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=100,
    )
    sent = [
        producer.send(
            topic,
            row.value,
            row.key,
            [("n", row.header)],
            partition=0,
            timestamp_ms=row.timestamp_ms,
        )
        for row in expected.ROWS
    ]
    for future in sent:
        future.get(expected.WAIT_S)
    producer.close()
    found = [
        expected.Row(r.key, r.value, dict(r.headers)["n"], r.timestamp)
        for r in read(bootstrap, topic, expected.COUNT)
    ]
    expected.check("records", found, expected.ROWS)


def group(bootstrap: str, topic: str, protocol: str) -> None:
    assert protocol == "classic"

    def member() -> Any:
        return KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
        )

    values: set[bytes] = set()

    # kafka-python 3.0.12 loses a rebalance that ends between two calls of poll(): it joins again or
    # waits for ever. So members do not take turns, each is polled in a thread, and long enough for
    # a rebalance that began with the call.
    threads = ThreadPoolExecutor(2)

    def poll(consumer: Any) -> dict[Any, list[Any]]:
        return consumer.poll(3000)

    def until(what: str, done: Callable[[], bool], *members: Any) -> None:
        limit = time.monotonic() + expected.WAIT_S
        while not done():
            assert time.monotonic() < limit, f"{what}: not within {expected.WAIT_S:.0f} s"
            for batches in threads.map(poll, members):
                for batch in batches.values():
                    values.update(record.value for record in batch)

    def held(consumer: Any) -> int:
        return len(consumer.assignment())

    first = member()
    until(
        "all partitions, all records",
        lambda: held(first) == expected.PARTITIONS and expected.all_read(values),
        first,
    )
    first.commit()
    second = member()
    until("two partitions each", lambda: held(first) == held(second) == 2, first, second)
    values.clear()
    producer: Any = KafkaProducer(bootstrap_servers=bootstrap)
    for n, value in enumerate(expected.MORE):
        producer.send(topic, value, partition=n).get(expected.WAIT_S)
    until("more records", lambda: values == set(expected.MORE), first, second)
    first.commit()
    second.commit()
    second.close()
    until("all partitions again", lambda: held(first) == expected.PARTITIONS, first)
    first.close()
    producer.send(topic, b"last", partition=0).get(expected.WAIT_S)
    producer.close()
    values.clear()
    third = member()
    until("the last record", lambda: bool(values), third)
    expected.check("after the commit", values, {b"last"})
    third.commit()
    third.close()


def transactions(bootstrap: str, topic: str) -> None:
    producer: Any = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    for word, end in (
        ("aborted", producer.abort_transaction),
        ("committed", producer.commit_transaction),
    ):
        producer.begin_transaction()
        for n in range(5):
            producer.send(topic, f"{word} {n}".encode(), partition=0).get(expected.WAIT_S)
        end()
    producer.close()
    found = [record.value for record in read(bootstrap, topic, 5)]
    expected.check("committed", found, [b"committed %d" % n for n in range(5)])
    expected.check("uncommitted", len(read(bootstrap, topic, 10, "read_uncommitted")), 10)


def admin(bootstrap: str, topic: str) -> None:
    client: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    config = {"cleanup.policy": "compact"}
    names = [topic, topic + "-gone"]
    client.create_topics([NewTopic(name, 3, 1, topic_configs=config) for name in names])
    client.wait_for_topics(names)
    [found] = client.describe_topics([topic])
    expected.check("partitions", len(found["partitions"]), 3)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)

    def value(name: str) -> str | None:
        described = client.describe_configs([resource], config_filter="all")
        return described["topic"][topic][name]["value"]

    expected.check("cleanup.policy", value("cleanup.policy"), "compact")
    client.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "123456"})]
    )
    expected.check("retention.ms", value("retention.ms"), "123456")
    client.delete_topics([topic + "-gone"])
    client.close()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
