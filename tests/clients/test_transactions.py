"""Transactions of real clients, against pk and Apache Kafka: what commits is seen whole, what
aborts is not seen, offsets go with their transaction, and a second instance of a producer ends the
first."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import kafka as kafka_python
import pytest
import trio
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka.errors import KafkaError as PythonKafkaError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonTopicPartition

from clients import apache_kafka, tools
from clients.fixtures import Kafka, clients_of_others, fresh_name
from clients.hanging_transaction import HANGS_S, hang
from clients.topics import create_topic, unverified, wait_until_none_is_open

TIMEOUT_S = 60.0
Fresh = Callable[[str], str]


def read(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Every value that a reader of this isolation level sees, up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": fresh_name("reader"),
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    values: list[bytes] = []
    ended: set[int] = set()
    until = time.monotonic() + TIMEOUT_S
    while len(ended) < len(partitions):
        assert time.monotonic() < until, f"{topic} has no end"
        message: Any = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            ended.add(message.partition())
        else:
            values.append(message.value())
    consumer.close()
    return sorted(values)


def committed(kafka: Kafka, group: str, topic: str) -> int:
    """A group's committed offset for partition 0."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    consumer.close()
    return found.offset


def batch(name: str) -> list[bytes]:
    return [f"{name}{n}".encode() for n in range(5)]


def librdkafka(bootstrap: str, transactional_id: str, topic: str, group: str) -> bool:
    config = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
    producer: Any = Producer(config)
    member: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    producer.init_transactions(TIMEOUT_S)
    for name, offset, ends in (
        ("a", 5, producer.commit_transaction),
        ("b", 9, producer.abort_transaction),
        ("c", 7, producer.commit_transaction),
        ("d", 8, producer.abort_transaction),
    ):
        producer.begin_transaction()
        for n, value in enumerate(batch(name)):
            producer.produce(topic, value, partition=n % 2)
        producer.flush(TIMEOUT_S)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], member.consumer_group_metadata(), TIMEOUT_S
        )
        ends(TIMEOUT_S)
    member.close()
    second: Any = Producer(config)
    second.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"fenced", partition=0)
    try:
        producer.commit_transaction(TIMEOUT_S)
    except KafkaException as e:
        return e.args[0].fatal()
    return False


def aio(bootstrap: str, transactional_id: str, topic: str, group: str) -> bool:
    async def run() -> bool:
        producer: Any = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id
        )
        await producer.start()
        try:
            for name, offset, commit in (
                ("a", 5, True),
                ("b", 9, False),
                ("c", 7, True),
                ("d", 8, False),
            ):
                await producer.begin_transaction()
                for n, value in enumerate(batch(name)):
                    await producer.send_and_wait(topic, value, partition=n % 2)
                tp = aiokafka.TopicPartition(topic, 0)
                await producer.send_offsets_to_transaction({tp: offset}, group)
                await (producer.commit_transaction() if commit else producer.abort_transaction())
            second: Any = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id
            )
            await second.start()
            await second.stop()
            try:
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"fenced", partition=0)
            except AioKafkaError:
                return True
            return False
        finally:
            await producer.stop()

    return asyncio.run(run())


def python(bootstrap: str, transactional_id: str, topic: str, group: str) -> bool:
    def make() -> Any:
        made: Any = kafka_python.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id
        )
        made.init_transactions()
        return made

    producer = make()
    for name, offset, commit in (("a", 5, True), ("b", 9, False), ("c", 7, True), ("d", 8, False)):
        producer.begin_transaction()
        for n, value in enumerate(batch(name)):
            producer.send(topic, value, partition=n % 2)
        producer.flush(TIMEOUT_S)
        offsets = {PythonTopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(offsets, group)
        (producer.commit_transaction if commit else producer.abort_transaction)()
    second = make()
    try:
        producer.begin_transaction()
        producer.send(topic, b"fenced", partition=0).get(TIMEOUT_S)
        producer.commit_transaction()
    except PythonKafkaError:
        return True
    finally:
        second.close()
        producer.close(timeout=1)
    return False


@pytest.mark.parametrize("client", [librdkafka, aio, python], ids=lambda c: c.__name__)
def test_round_trip(kafka: Kafka, fresh: Fresh, client: Callable[..., bool]) -> None:
    topic, group = create_topic(kafka, fresh("txn"), 2), fresh("txn-group")
    assert client(kafka.bootstrap, fresh("tx"), topic, group), "the first instance was not fenced"
    assert read(kafka, topic) == sorted(batch("a") + batch("c"))
    seen = read(kafka, topic, "read_uncommitted")
    assert set(seen) - {b"fenced"} == {v for name in "abcd" for v in batch(name)}
    assert committed(kafka, group, topic) == 7


@pytest.mark.peer
def test_javas_producer_measures_itself_in_transactions(kafka: Kafka, fresh: Fresh) -> None:
    topic = create_topic(kafka, fresh("perf"), 1)
    perf = apache_kafka.run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "3000", "--throughput", "-1"),
        *("--record-size", "100", "--transactional-id", fresh("perf")),
        *("--transaction-duration-ms", "50", "--bootstrap-server", kafka.bootstrap),
    )
    assert "3000 records sent" in perf.stdout, perf.stdout + perf.stderr
    wait_until_none_is_open(kafka, topic)
    assert len(read(kafka, topic)) == 3000


@pytest.mark.peer
def test_javas_copier_loses_and_doubles_nothing(kafka: Kafka, fresh: Fresh) -> None:
    """Read, process, write with aborts at random, by the client of the second protocol."""
    source, sink = create_topic(kafka, fresh("source"), 1), create_topic(kafka, fresh("sink"), 1)
    producer: Any = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 50})
    for n in range(3000):
        producer.produce(source, f"record {n}".encode(), partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    copier = apache_kafka.run_tool(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", kafka.bootstrap, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", sink, "--max-messages", "3000", "--consumer-group", fresh("copier")),
        *("--transaction-size", "300", "--transactional-id", fresh("copy")),
        *("--enable-random-aborts", "--group-mode"),
    )
    assert copier.returncode == 0, copier.stdout + copier.stderr
    last = json.loads(copier.stdout.strip().splitlines()[-1])
    assert (last["consumed"], last["remaining"]) == (3000, 0)
    wait_until_none_is_open(kafka, sink)
    assert read(kafka, sink) == sorted(f"record {n}".encode() for n in range(3000))


def open_transaction(kafka: Kafka, topic: str, transactional_id: str) -> None:
    """Writes a record in a transaction that stays open, for as long as starting tools may take."""
    producer: Any = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 900_000,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0


@clients_of_others
@pytest.mark.peer
def test_javas_tools_see_transactions(kafka: Kafka, fresh: Fresh) -> None:
    topic, transactional_id = create_topic(kafka, fresh("txn"), 1), fresh("seen")
    open_transaction(kafka, topic, transactional_id)

    def tool(*args: str) -> list[list[str]]:
        ended = tools.run(kafka, tools.TRANSACTIONS, *args)
        assert ended.code == 0, ended.err
        return ended.lines

    listed = next(line for line in tool("list") if line[0] == transactional_id)
    assert listed[3] == "Ongoing"
    described = tool("describe", "--transactional-id", transactional_id)[-1]
    assert described[4] == "Ongoing" and described[-1] == f"{topic}-0"
    producers = tool("describe-producers", "--topic", topic, "--partition", "0")[-1]
    assert producers[-1] == "0"  # the start of its transaction
    tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert read(kafka, topic) == []
    assert read(kafka, topic, "read_uncommitted") == [b"open"]


@clients_of_others
@pytest.mark.peer
def test_javas_tool_ends_a_transaction_by_its_id(kafka: Kafka, fresh: Fresh) -> None:
    topic, transactional_id = create_topic(kafka, fresh("txn"), 1), fresh("ended")
    open_transaction(kafka, topic, transactional_id)

    def tool(*args: str, code: int = 0) -> tools.Ended:
        ended = tools.run(kafka, tools.TRANSACTIONS, *args)
        assert ended.code == code, ended
        return ended

    pattern = ("--transactional-id-pattern", f"{transactional_id[:-1]}.*")
    (listed,) = [row for row in tool("list", *pattern).rows if row[0] == transactional_id]
    assert (listed[1], listed[3]) == ("1", "Ongoing")
    assert tool("list", *pattern, "--duration-filter", "600000").rows == []
    # A coordinator knows it, so it does not hang, however short the limit.
    hanging = ("find-hanging", "--topic", topic, "--partition", "0")
    assert tool(*hanging, "--max-transaction-timeout", "0").rows == []
    tool("forceTerminateTransaction", "--transactionalId", transactional_id)
    assert read(kafka, topic) == []
    ended = tool("describe", "--transactional-id", transactional_id).rows[0]
    assert ended[3:] == ["2", "Empty", "30000", "None", "None"]
    (left,) = tool("describe-producers", "--topic", topic, "--partition", "0").rows
    assert (left[1], left[-1]) == ("1", "None")
    absent = tool("describe", "--transactional-id", f"{transactional_id}-no", code=1)
    assert "the ID could not be found" in absent.err
    nothing = tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "7", code=1)
    assert nothing.err.endswith(f"offset 7 on partition {topic}-0\n")


@clients_of_others
@pytest.mark.peer
def test_javas_tool_finds_a_transaction_that_hangs(kafka: Kafka, fresh: Fresh) -> None:
    topic = create_topic(kafka, fresh("hangs"), 1)
    began = time.monotonic()
    with unverified(kafka):
        trio.run(hang, kafka.bootstrap, topic)

    def hanging() -> list[list[str]]:
        return tools.run(kafka, tools.TRANSACTIONS, "find-hanging", "--broker-id", "1").rows

    (found,) = [row for row in hanging() if row[0] == topic]
    assert (found[1], found[3], found[5]) == ("0", "0", "0")
    minutes = (time.monotonic() - began + HANGS_S) // 60
    assert HANGS_S // 60 <= int(found[7]) <= minutes
    place = ("--topic", topic, "--partition", "0", "--start-offset", "0")
    assert tools.run(kafka, tools.TRANSACTIONS, "abort", *place).code == 0
    assert not [row for row in hanging() if row[0] == topic]
    assert (read(kafka, topic), read(kafka, topic, "read_uncommitted")) == ([], [b"lost"])
