"""Clients of others read a topic of which most is in S3, as moto serves it, and nothing shows but
the time it takes."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from log.remote.stores import BUCKET, s3_server, s3_storage

import pk.testing
from pk.core.log.remote.storage import SegmentName

SEGMENTS = 8
RECORDS = 9000
TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "0",
    "retention.ms": "-1",
}
BEGAN_MS = 1_700_000_000_000


class Tiered:
    """A broker with a topic in S3."""

    def __init__(self, broker: pk.testing.Broker, options: dict[str, str]) -> None:
        self.url = broker.url
        self.storage = s3_storage(options, "kafka")
        self.sent = [b"%08d" % n + os.urandom(32) * 31 for n in range(RECORDS)]

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.url, "batch.size": 65536, "linger.ms": 5})
        for n, value in enumerate(self.sent):
            producer.produce("t", value, partition=0, timestamp=BEGAN_MS + n)
            producer.poll(0)
        assert producer.flush(60) == 0

    def await_copies(self) -> None:
        """Until only the active segment is on the broker's disk."""
        consumer = self.consumer()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            objects = [SegmentName.parse(found.name) for found in self.storage.list("")]
            if len(objects) >= SEGMENTS:
                break
            consumer.poll(0.1)
        else:
            pytest.fail("the segments were not copied")
        consumer.close()

    def consumer(self, **config: object) -> Consumer:
        return Consumer(
            {"bootstrap.servers": self.url, "group.id": "g", "enable.auto.commit": False} | config
        )


@pytest.fixture(scope="module")
def tiered() -> Iterator[Tiered]:
    with s3_server() as options:
        config = {
            "remote.log.storage.system.enable": "true",
            "remote.log.manager.task.interval.ms": "200",
            "log.retention.check.interval.ms": "200",
            "pk.remote.url": f"s3://{BUCKET}/kafka",
            "pk.remote.endpoint": options["endpoint"],
            "pk.remote.region": options["region"],
            "pk.remote.access.key": options["access_key_id"],
            "pk.remote.secret.key": options["secret_access_key"],
            "pk.remote.metadata.replication.factor": "1",
            "pk.remote.metadata.partitions": "1",
        }
        with pk.testing.broker(config) as broker:
            broker.create_topic("t", 1, TOPIC)
            one = Tiered(broker, options)
            one.produce()
            one.await_copies()
            yield one


def test_librdkafka_reads_all_of_it(tiered: Tiered) -> None:
    consumer = tiered.consumer()
    consumer.assign([ConfluentPartition("t", 0, 0)])
    values: list[bytes | None] = []
    while len(values) < RECORDS:
        for message in consumer.consume(1000, timeout=30):
            assert message.error() is None
            values.append(message.value())
    assert values == tiered.sent
    consumer.close()


def test_librdkafka_finds_times(tiered: Tiered) -> None:
    consumer = tiered.consumer()
    for n in (0, 1, 1234, 5678, RECORDS - 1):
        [found] = consumer.offsets_for_times([ConfluentPartition("t", 0, BEGAN_MS + n)], timeout=30)
        assert found.offset == n
    consumer.close()


def test_aiokafka_reads_from_the_middle(tiered: Tiered) -> None:
    async def run() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=tiered.url, auto_offset_reset="none")
        await consumer.start()
        try:
            partition = TopicPartition("t", 0)
            consumer.assign([partition])
            consumer.seek(partition, 1500)
            for n in range(1500, 4000):
                record = await consumer.getone()
                assert (record.offset, record.value) == (n, tiered.sent[n])
        finally:
            await consumer.stop()

    asyncio.run(run())


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not here")
def test_kcat_reads_all_of_it(tiered: Tiered) -> None:
    done = subprocess.run(
        ["kcat", "-b", tiered.url, "-C", "-t", "t", "-p", "0", "-o", "0", "-e", "-q", "-f", "%S "],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [b"%d" % len(value) for value in tiered.sent]
