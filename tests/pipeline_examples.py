"""The examples of pipelines: their data, their results in topics, and the expected results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_WAIT_S = 300

Record = tuple[bytes | None, bytes | None, dict[str, bytes]]
"""Key, value and headers."""


def data(name: str) -> list[str]:
    """The lines of a file of the examples."""
    return (EXAMPLES / "data" / f"{name}.jsonl").read_text().splitlines()


def good_orders() -> list[dict[str, Any]]:
    """The orders of the examples that parse, by Python's own parser."""
    found: list[dict[str, Any]] = []
    for line in data("orders"):
        try:
            order = json.loads(line)
        except ValueError:
            continue
        if isinstance(order["amount"], float):
            found.append(order)
    return found


def append(
    bootstrap: str, topic: str, values: Iterable[str | bytes] = (), partitions: int = 2
) -> None:
    """Makes a topic if it is missing, and appends values."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    if topic not in admin.list_topics(timeout=_WAIT_S).topics:
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, f"key-{number}")
    assert producer.flush(_WAIT_S) == 0


def committed(bootstrap: str, topic: str) -> list[Record]:
    """The records that a read_committed consumer of librdkafka gets, in order for each
    partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    found: list[Record] = []
    ends = 0
    while ends < len(partitions):
        message = consumer.poll(_WAIT_S)
        assert message is not None
        if message.error():
            ends += 1
            continue
        headers: Any = dict(message.headers() or [])
        key, value = message.key(), message.value()
        assert not isinstance(key, str) and not isinstance(value, str)
        found.append((key, value, headers))
    consumer.close()
    return found


def counts_of(bootstrap: str, topic: str = "orders-per-minute") -> Counter[tuple[str, str]]:
    """The newest count of each minute and customer. Those of one key are in one partition, in
    order."""
    rows = [json.loads(value or b"null") for _, value, _ in committed(bootstrap, topic)]
    return Counter({(r["minute"][:16], r["customer"]): r["orders"] for r in rows})


def duckdb(query: str) -> list[tuple[Any, ...]]:
    """The rows of a query by DuckDB, which reads tables without pk."""
    import duckdb as database

    return database.connect().execute(query).fetchall()
