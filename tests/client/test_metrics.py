"""The counters of producers and consumers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from clients.fixtures import Kafka

from pk.client import (
    KafkaError,
    NewTopic,
    TopicPartition,
    blocking,
    open_consumer,
    open_producer,
)

ROOT = Path(__file__).resolve().parents[2]
Fresh = Callable[[str], str]


def test_metrics_of_a_producer_and_a_consumer(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("metrics")
    here = TopicPartition(topic, 0)

    async def main() -> None:
        config = {"buffer.memory": 1 << 20, "linger.ms": 60_000}
        async with open_producer(kafka.bootstrap, config) as producer:
            assert producer.metrics() == {
                "record-send-total": 0,
                "record-retry-total": 0,
                "record-error-total": 0,
                "batch-split-total": 0,
                "requests-in-flight": 0,
                "buffer-total-bytes": 1 << 20,
                "buffer-available-bytes": 1 << 20,
            }
            await producer.send_many(topic, [(None, b"x" * 100)] * 10)
            waiting = producer.metrics()
            assert waiting["buffer-available-bytes"] < (1 << 20) - 1000
            await producer.flush()
            sent = producer.metrics()
            assert sent["record-send-total"] == 10 + sent["record-retry-total"]
            assert sent["buffer-available-bytes"] == 1 << 20
            assert sent["requests-in-flight"] == sent["record-error-total"] == 0
        async with open_consumer(kafka.bootstrap, {"auto.offset.reset": "earliest"}) as consumer:
            assert math.isnan(consumer.metrics()["records-lag-max"])
            consumer.assign([here])
            assert len(await consumer.poll(records_max=3)) == 3
            read = consumer.metrics()
            assert read["records-consumed-total"] == 3
            assert read["records-lag-max"] == 7
            assert read["assigned-partitions"] == 1
            assert read["fetch-total"] >= 1
            async for record in consumer:
                if record.offset == 5:
                    break
            assert consumer.metrics()["records-consumed-total"] == 6
            assert consumer.metrics()["records-lag-max"] == 4
            await consumer.poll_batches()
            assert consumer.metrics()["records-lag-max"] == 0

    with blocking.open_admin(kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1)]).value(topic)
    trio.run(main)


def test_records_that_are_refused_and_batches_that_are_split(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("metrics")
    with blocking.open_admin(kafka.bootstrap) as admin:
        limits: dict[str, str | None] = {"max.message.bytes": "1000"}
        admin.create_topics([NewTopic(topic, 1, configs=limits)]).value(topic)
    with blocking.open_producer(kafka.bootstrap) as producer:
        producer.send_many(topic, [(None, b"x" * 600)] * 2).result()
        assert producer.metrics()["batch-split-total"] == 1
        assert producer.metrics()["record-error-total"] == 0
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.send(topic, b"x" * 2000).result()
        assert producer.metrics()["record-error-total"] == 1


def test_the_documentation_names_each_metric(kafka: Kafka) -> None:
    text = (ROOT / "docs/client-metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (producer|consumer) \| (`[^|]*`) \|$", text, re.MULTILINE)
    named = {client: re.findall("`([^`]+)`", cells) for client, cells in rows}
    with (
        blocking.open_producer(kafka.bootstrap) as producer,
        blocking.open_consumer(kafka.bootstrap) as consumer,
    ):
        assert named == {"producer": list(producer.metrics()), "consumer": list(consumer.metrics())}
