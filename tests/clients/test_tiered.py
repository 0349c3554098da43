"""Clients of others read a topic of 20 segments, of which 18 are only in S3, as moto serves it, and
nothing shows but the time it takes. While S3 is away nothing is lost, and the broker says why its
disk fills."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as KafkaPythonPartition
from log.remote.stores import BUCKET, s3_server

import pk.testing
from clients import apache_kafka
from clients.tiered_conversation import Peer
from pk.core.meta.events import GROUP
from pk.core.values import EARLIEST_LOCAL_TIMESTAMP
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

needs_java = pytest.mark.skipif(apache_kafka.available() is not None, reason="needs java and mvn")

RECORDS = 21_500
AWAY_S = 5
"""Several attempts to copy a segment."""
TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "2097152",
    "retention.ms": "-1",
}
BEGAN_MS = 1_700_000_000_000


class Tiered:
    """A broker with a topic in S3."""

    def __init__(self, broker: pk.testing.Broker, records: int) -> None:
        self.url = broker.url
        self.sent = [b"%08d" % n + os.urandom(32) * 31 for n in range(records)]

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.url, "batch.size": 65536, "linger.ms": 5})
        for n, value in enumerate(self.sent):
            producer.produce("t", value, partition=0, timestamp=BEGAN_MS + n)
            producer.poll(0)
        assert producer.flush(60) == 0

    def await_copies(self) -> None:
        """Until most of the records are only in the store."""
        deadline = time.monotonic() + 60
        while self.local_start() < len(self.sent) * 3 // 4:
            assert time.monotonic() < deadline, "the segments were not copied and dropped"
            time.sleep(0.1)  # nothing tells a client of it

    def local_start(self) -> int:
        """The first offset on the broker's disk."""
        return position_of(self.url, "t", EARLIEST_LOCAL_TIMESTAMP)

    def consumer(self, **config: object) -> Consumer:
        return Consumer(
            {"bootstrap.servers": self.url, "group.id": "g", "enable.auto.commit": False} | config
        )


def position_of(url: str, topic: str, timestamp: int) -> int:
    """The offset that ListOffsets returns for partition 0."""
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    with Peer(int(url.rpartition(":")[2])) as peer:
        [found] = peer.ask(request, 9).topics[0].partitions
    assert not found.error_code
    return found.offset


def config_of(options: dict[str, str], folder: str) -> dict[str, str]:
    """The configuration of a broker with a store in S3."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "pk.remote.url": f"s3://{BUCKET}/{folder}",
        "pk.remote.endpoint": options["endpoint"],
        "pk.remote.region": options["region"],
        "pk.remote.access.key": options["access_key_id"],
        "pk.remote.secret.key": options["secret_access_key"],
        "pk.remote.metadata.replication.factor": "1",
        "pk.remote.metadata.partitions": "1",
    }


@pytest.fixture(scope="module")
def tiered() -> Iterator[Tiered]:
    with s3_server() as options, pk.testing.broker(config_of(options, "kafka")) as broker:
        broker.create_topic("t", 1, TOPIC)
        one = Tiered(broker, RECORDS)
        one.produce()
        one.await_copies()
        yield one


def read_all(consumer: Consumer, count: int, start: int = 0) -> list[bytes | None]:
    """The values of this many records from `start` on."""
    consumer.assign([ConfluentPartition("t", 0, start)])
    values: list[bytes | None] = []
    while len(values) < count:
        for message in consumer.consume(min(1000, count - len(values)), timeout=30):
            assert message.error() is None
            values.append(message.value())
    return values


@pytest.mark.thorough
def test_librdkafka_reads_all_of_it(tiered: Tiered) -> None:
    consumer = tiered.consumer()
    assert read_all(consumer, RECORDS) == tiered.sent
    consumer.close()


def test_kafka_python_reads_all_of_it_and_finds_times(tiered: Tiered) -> None:
    consumer = KafkaConsumer(bootstrap_servers=tiered.url, consumer_timeout_ms=30_000)
    partition = KafkaPythonPartition("t", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    values = [record.value for _, record in zip(range(RECORDS), consumer, strict=False)]
    assert values == tiered.sent
    for n in (0, 4321, RECORDS - 1):
        found = consumer.offsets_for_times({partition: BEGAN_MS + n})[partition]
        assert found is not None and (found.offset, found.timestamp) == (n, BEGAN_MS + n)
    consumer.close()


def _java(class_name: str, *words: str) -> bytes:
    command = apache_kafka.java_command(class_name, *words)
    done = subprocess.run(command, capture_output=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.peer
@needs_java
def test_the_java_consumer_reads_all_of_it(tiered: Tiered) -> None:
    out = _java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", tiered.url,
        "--topic", "t", "--partition", "0", "--offset", "earliest", "--max-messages", str(RECORDS),
    )  # fmt: skip
    assert out == b"".join(value + b"\n" for value in tiered.sent)


@pytest.mark.peer
@needs_java
def test_kafka_get_offsets_knows_both_tiers(tiered: Tiered) -> None:
    local = tiered.local_start()
    for when, offset in (("-2", 0), ("-4", local), ("earliest-local", local)):
        out = _java(
            "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", tiered.url,
            "--topic", "t", "--time", when,
        )  # fmt: skip
        assert out.decode().strip() == f"t:0:{offset}"


@pytest.mark.peer
@needs_java
def test_a_share_group_reads_all_of_it(tiered: Tiered) -> None:
    reset = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    group = AlterConfigsResource(resource_type=GROUP, resource_name="shares", configs=[reset])
    with Peer(int(tiered.url.rpartition(":")[2])) as peer:
        [done] = peer.ask(IncrementalAlterConfigsRequest(resources=[group]), 1).responses
    assert not done.error_code
    out = _java(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--bootstrap-server", tiered.url,
        "--topic", "t", "--group", "shares", "--max-messages", str(RECORDS),
    )  # fmt: skip
    assert out == b"".join(value + b"\n" for value in tiered.sent)


@pytest.mark.slow
def test_while_the_store_is_away_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Producers go on, nothing is dropped from the disk, and the broker's log says why; when the
    store is back, everything is copied."""
    with s3_server() as options:
        port = int(options["endpoint"].rpartition(":")[2])
        config = config_of(options, "away") | {"remote.log.manager.task.interval.ms": "300"}
    with pk.testing.broker(config) as running:
        running.create_topic("t", 1, TOPIC | {"local.retention.bytes": "0"})
        one = Tiered(running, RECORDS // 4)
        with caplog.at_level(logging.WARNING, "pk.remote"):
            one.produce()
            time.sleep(AWAY_S)
        assert one.local_start() == 0
        warnings = [r.getMessage() for r in caplog.records if "remote storage" in r.getMessage()]
        assert warnings and len(warnings) < 2 * AWAY_S, "it says so, and not with every attempt"
        consumer = one.consumer()
        assert read_all(consumer, len(one.sent)) == one.sent
        with s3_server(port):
            one.await_copies()
            assert read_all(consumer, len(one.sent)) == one.sent
        consumer.close()


@pytest.mark.slow
def test_while_the_store_is_away_its_readers_wait() -> None:
    """A consumer of the part that is only in the store gets no error, and continues when the store
    is back. A consumer of the part on the disk and a producer notice nothing."""
    with ExitStack() as stack:
        with s3_server() as options:
            port = int(options["endpoint"].rpartition(":")[2])
            config = config_of(options, "waiting")
            running = stack.enter_context(pk.testing.broker(config))
            running.create_topic("t", 1, TOPIC | {"local.retention.bytes": "0"})
            one = Tiered(running, RECORDS // 4)
            one.produce()
            one.await_copies()
        remote, local, start = one.consumer(), one.consumer(), one.local_start()
        remote.assign([ConfluentPartition("t", 0, 0)])
        deadline, more = time.monotonic() + AWAY_S, Tiered(running, RECORDS // 4)
        more.produce()
        while time.monotonic() < deadline:
            assert remote.consume(1, timeout=0.2) == []
        assert one.local_start() == start, "what is not copied stays on the disk"
        sent = one.sent + more.sent
        assert read_all(local, len(sent) - start, start) == sent[start:]
        with s3_server(port):
            values: list[bytes | None] = []
            while len(values) < len(sent):
                for message in remote.consume(min(1000, len(sent) - len(values)), timeout=60):
                    assert message.error() is None
                    values.append(message.value())
            assert values == sent
            one.sent = sent
            one.await_copies()
        remote.close()
        local.close()


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
