"""Helpers of client tests beside the client under test, by librdkafka: topics, groups, offsets."""

from __future__ import annotations

import contextlib
import functools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import confluent_kafka.admin
import trio
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from clients.fixtures import Kafka
from pk.net.client.admin import open_admin
from pk.net.client.results import ConfigChange, ConfigOperation, ConfigResource, ResourceType

librdkafka: Any = confluent_kafka.admin  # its types do not tell of all that it has
TIMEOUT_S = 90.0
COORDINATOR_ON_ITS_WAY = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
T = TypeVar("T")


@functools.cache  # a client that nothing holds is destroyed with its requests in flight
def admin(kafka: Kafka) -> AdminClient:
    """An admin client of librdkafka."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})


@functools.cache
def group_admin(kafka: Kafka) -> AdminClient:
    """The same, once the broker has the topic of its groups.

    Until then a coordinator is not available, and librdkafka's admin client (2.16) asks three times
    within half a second, then forgets the request without an answer. Its consumer asks on.
    """
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "-", "log_level": 0})

    def asked() -> bool:
        try:
            consumer.committed([TopicPartition("-", 0)], timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_ON_ITS_WAY:
                raise
            return False
        return True

    try:
        wait_until("a coordinator", asked)
    finally:
        consumer.close()
    return admin(kafka)


def create_topic(
    kafka: Kafka, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Creates a topic of one replica, waits until the broker tells of it, and returns its name."""
    topic: Any = NewTopic(name, partitions, 1, config=dict(config or {}))
    admin(kafka).create_topics([topic])[name].result(TIMEOUT_S)

    def reported() -> bool:
        # The controller of Apache Kafka answers before its brokers have heard.
        found = admin(kafka).list_topics(timeout=TIMEOUT_S).topics.get(name)
        return found is not None and len(found.partitions) == partitions

    wait_until(f"topic {name}", reported)
    return name


def configure_group(kafka: Kafka, group: str, configs: Mapping[str, str]) -> None:
    """Gives a group configs of its own; librdkafka's admin client knows no such resource."""

    async def configure() -> None:
        async with open_admin(kafka.bootstrap) as client:
            resource = ConfigResource(ResourceType.GROUP, group)
            changes = [ConfigChange(key, value) for key, value in configs.items()]
            answers = await client.alter_configs({resource: changes})
            assert not answers.errors, answers
            # The controller of Apache Kafka answers before its brokers have heard.
            with trio.fail_after(TIMEOUT_S):
                while True:
                    found = (await client.describe_configs([resource])).value(resource)
                    if configs.items() <= {each.name: each.value for each in found}.items():
                        break
                    await trio.sleep(0.05)

    trio.run(configure)


@contextlib.contextmanager
def unverified(kafka: Kafka) -> Iterator[None]:
    """Brokers let records of a transaction in without asking its coordinator, as they did before
    KIP-890."""
    key = "transaction.partition.verification.enable"
    with contextlib.ExitStack() as stack:
        stack.callback(_configure_broker, kafka, ConfigChange(key, None, ConfigOperation.DELETE))
        _configure_broker(kafka, ConfigChange(key, "false"))
        yield


def _configure_broker(kafka: Kafka, change: ConfigChange) -> None:
    """Changes a config of all brokers, and waits until broker 1 goes by it: the controller of
    Apache Kafka answers before."""
    key = [change.name]

    async def configure() -> None:
        async with open_admin(kafka.bootstrap) as client:
            everyone, broker = (ConfigResource(ResourceType.BROKER, name) for name in ("", "1"))
            answers = await client.alter_configs({everyone: [change]})
            assert not answers.errors, answers
            wanted = change.value or "true"
            with trio.fail_after(TIMEOUT_S):
                while True:
                    found = (await client.describe_configs([broker], keys=key)).value(broker)
                    if found[0].value == wanted:
                        break
                    await trio.sleep(0.05)

    trio.run(configure)


def wait_until(what: str, ask: Callable[[], T | None], timeout: float = TIMEOUT_S) -> T:
    """Asks again and again until the answer is neither None nor False, and returns it."""
    deadline = time.monotonic() + timeout
    while True:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {timeout:.0f} s"
        time.sleep(0.05)


def wait_for_marks(kafka: Kafka, topic: str, end: int) -> None:
    """Waits until no transaction is open in partition 0 and its log ends at `end`, the
    transactions' marks counted.

    The coordinator of Apache Kafka answers that a transaction has ended before the marks are
    written.
    """
    latest = {TopicPartition(topic, 0): librdkafka.OffsetSpec.latest()}
    committed_only = IsolationLevel.READ_COMMITTED

    def written() -> bool:
        [answer] = admin(kafka).list_offsets(latest, isolation_level=committed_only).values()
        return answer.result(TIMEOUT_S).offset == end

    wait_until(f"the marks of transactions in {topic}", written)


def wait_until_none_is_open(kafka: Kafka, topic: str, partitions: int = 1) -> None:
    """Waits until no transaction is open in the first partitions.

    The coordinator of Apache Kafka answers that a transaction has ended before the marks are
    written.
    """
    latest = librdkafka.OffsetSpec.latest()
    asked = {TopicPartition(topic, n): latest for n in range(partitions)}

    def ends(isolation: IsolationLevel) -> dict[int, int]:
        answers = admin(kafka).list_offsets(asked, isolation_level=isolation)
        return {p.partition: answer.result(TIMEOUT_S).offset for p, answer in answers.items()}

    wait_until(
        f"the end of transactions in {topic}",
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
    )


def committed_messages(kafka: Kafka, topic: str, partitions: int = 1) -> list[Message]:
    """The records of the first partitions up to the first open transaction; those of each partition
    are in order."""
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": str(uuid.uuid4()),
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
    found: list[Message] = []
    ends = 0
    while ends < partitions:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends += 1
        else:
            found.append(message)
    consumer.close()
    return found


def produce(kafka: Kafka, topic: str, partitions: int, count: int) -> None:
    """Appends `count` small records to each partition."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for n in range(partitions * count):
        producer.produce(
            topic,
            b"%d" % n,
            partition=n % partitions,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed, failed


def members(kafka: Kafka, group: str) -> dict[str, tuple[str | None, frozenset[int]]] | None:
    """Member id → (instance id, partitions) of a group that is stable; None while it is not."""
    answer = group_admin(kafka).describe_consumer_groups([group])[group]
    described = _answer_of_coordinator(answer)
    if described is None or described.state != ConsumerGroupState.STABLE:
        return None
    return {
        member.member_id: (
            member.group_instance_id,
            frozenset(p.partition for p in member.assignment.topic_partitions),
        )
        for member in described.members
    }


def wait_for_shares(kafka: Kafka, group: str, shares: list[int]) -> None:
    """Waits until the group is stable and its members hold these partition counts, none twice."""

    def ask() -> bool:
        found = members(kafka, group)
        if found is None:
            return False
        held = [partition for _, partitions in found.values() for partition in partitions]
        sizes = sorted(len(partitions) for _, partitions in found.values())
        return sizes == sorted(shares) and len(held) == len(set(held))

    wait_until(f"shares {shares} of {group}", ask)


def committed(kafka: Kafka, group: str) -> dict[int, int] | None:
    """Partition → committed offset of a group that reads one topic; None while it has no
    coordinator."""
    asked = [ConsumerGroupTopicPartitions(group)]
    [future] = group_admin(kafka).list_consumer_group_offsets(asked).values()
    answer = _answer_of_coordinator(future)
    return answer and {p.partition: p.offset for p in answer.topic_partitions}


def commit(consumer: Consumer, positions: list[TopicPartition]) -> None:
    """Commits offsets, and asks again while the coordinator is only just being made or found."""

    def asked() -> bool:
        try:
            consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in (*COORDINATOR_ON_ITS_WAY, KafkaError._TRANSPORT):
                return False
            raise
        return True

    wait_until("a commit", asked)


def _answer_of_coordinator(future: Future[Any]) -> Any:
    """The result, or None if the coordinator is still being created."""
    try:
        return future.result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() in COORDINATOR_ON_ITS_WAY:
            return None
        raise


def wait_for_commit(kafka: Kafka, group: str, partitions: int, offset: int) -> None:
    """Waits until every partition's committed offset is `offset`."""
    expected = dict.fromkeys(range(partitions), offset)
    wait_until(f"commits of {group}", lambda: committed(kafka, group) == expected)
