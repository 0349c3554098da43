"""Each fault of `pk.testing`, and how a client that others wrote reacts to it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as KafkaPythonPartition

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition as PkPartition
from pk.net.client.admin import open_admin
from pk.testing import Broker

DAY_S = 86_400
LONG_S = 3_000
"""A delay that no test waits for: the client gives up first."""
POLL_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as kafka:
        kafka.create_topic("t")
        yield kafka


def produce(kafka: Broker, *values: str, **config: object) -> list[object]:
    """librdkafka's delivery result for each record: None, or the error's name."""
    said: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.url, "log_level": 0} | config)
    for value in values:
        producer.produce("t", value, on_delivery=lambda e, _: said.append(e and e.name()))
    assert producer.flush(POLL_S) == 0
    return said


@contextmanager
def consuming(kafka: Broker, **config: object) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.url,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        | config
    )
    try:
        yield consumer
    finally:
        consumer.close()


def until(holds: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
    deadline = time.monotonic() + POLL_S
    while not holds():
        assert time.monotonic() < deadline
        meanwhile()


# --- fail_next ---


def test_librdkafka_asks_for_the_leader_and_tries_again(broker: Broker) -> None:
    broker.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    assert produce(broker, "a") == [None]
    assert len(broker.requests("Produce")) == 3
    assert len(broker.requests("Metadata")) >= 2


def test_librdkafka_gives_up_on_what_no_retry_mends(broker: Broker) -> None:
    broker.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
    assert produce(broker, "a") == ["TOPIC_AUTHORIZATION_FAILED"]
    assert produce(broker, "b") == [None], "once is enough"


def test_aiokafka_reads_on_after_a_failed_fetch(broker: Broker) -> None:
    produce(broker, "a", "b")
    broker.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", client_id="reader")

    async def main() -> None:
        async with AIOKafkaConsumer(
            "t", bootstrap_servers=broker.url, client_id="reader", auto_offset_reset="earliest"
        ) as consumer:
            async with asyncio.timeout(POLL_S):
                assert [(await consumer.getone()).value for _ in range(2)] == [b"a", b"b"]

    asyncio.run(main())
    assert len(broker.requests("Fetch", client_id="reader")) >= 2


def test_librdkafka_reads_on_after_a_failed_fetch_of_its_session(broker: Broker) -> None:
    with consuming(broker) as consumer:
        consumer.assign([TopicPartition("t", 0, 0)])
        produce(broker, "a")
        message = consumer.poll(POLL_S)
        assert message is not None and message.value() == b"a"
        broker.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER")
        produce(broker, "b")
        message = consumer.poll(POLL_S)
        assert message is not None and message.value() == b"b"


def test_a_consumer_waits_for_its_coordinator(broker: Broker) -> None:
    produce(broker, "a")
    broker.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2)
    with consuming(broker) as consumer:
        consumer.subscribe(["t"])
        message = consumer.poll(POLL_S)
        assert message is not None and message.value() == b"a"
    assert len(broker.requests("FindCoordinator")) >= 3


def test_list_offsets_fails_for_each_partition(broker: Broker) -> None:
    """An API that has no error code of its own, only one for each partition."""
    broker.fail_next("ListOffsets", "TOPIC_AUTHORIZATION_FAILED")
    admin = AdminClient({"bootstrap.servers": broker.url, "log_level": 0})
    partition = TopicPartition("t", 0)

    def end() -> int:
        return (
            admin.list_offsets({partition: cast(OffsetSpec, OffsetSpec.latest())})[partition]
            .result(POLL_S)
            .offset
        )

    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        end()
    assert end() == 0


def test_only_the_client_that_was_named_fails(broker: Broker) -> None:
    broker.fail_next("Produce", "INVALID_RECORD", client_id="unlucky")
    assert produce(broker, "a", **{"client.id": "lucky"}) == [None]
    assert produce(broker, "b", **{"client.id": "unlucky"}) == ["INVALID_RECORD"]


# --- delay ---


def test_a_producer_gives_up_on_a_broker_that_is_too_slow(broker: Broker) -> None:
    broker.delay("Produce", LONG_S)
    assert produce(broker, "a", **{"message.timeout.ms": 500}) == ["_MSG_TIMED_OUT"]
    assert broker.clear_faults() == 1
    assert produce(broker, "b") == [None]


def test_a_short_delay_is_only_a_delay(broker: Broker) -> None:
    broker.delay("Produce", 0.01, times=2)
    assert produce(broker, "a") == [None]
    assert broker.clear_faults() == 1, "one of two is left"


# --- drop_next, drop_connections ---


def test_an_idempotent_producer_whose_answer_is_lost_writes_once(broker: Broker) -> None:
    broker.drop_next("Produce", answer_only=True)
    assert produce(broker, "a", **{"enable.idempotence": True}) == [None]
    assert len(broker.requests("Produce")) == 2
    with consuming(broker) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), POLL_S) == (0, 1)


def test_a_producer_that_is_not_idempotent_writes_twice(broker: Broker) -> None:
    broker.drop_next("Produce", answer_only=True)
    assert produce(broker, "a") == [None]
    with consuming(broker) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), POLL_S) == (0, 2)


def test_a_request_that_is_dropped_had_no_effect(broker: Broker) -> None:
    broker.drop_next("Produce")
    assert produce(broker, "a") == [None]
    with consuming(broker) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), POLL_S) == (0, 1)


def test_kafka_python_connects_again(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.url, client_id="writer")
    try:
        assert producer.send("t", b"a").get(POLL_S).offset == 0
        before = {r.connection for r in broker.requests(client_id="writer")}
        assert broker.drop_connections(client_id="somebody else") == 0
        assert broker.drop_connections(client_id="writer") >= 1
        assert producer.send("t", b"b").get(POLL_S).offset == 1
        assert {r.connection for r in broker.requests(client_id="writer")} > before
    finally:
        producer.close()


# --- move_leader ---


def test_aiokafka_finds_the_leader_in_its_next_epoch(broker: Broker) -> None:
    async def main() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.url) as producer:
            await producer.send_and_wait("t", b"a")
            broker.move_leader("t", 0)
            async with asyncio.timeout(POLL_S):
                assert (await producer.send_and_wait("t", b"b")).offset == 1

    asyncio.run(main())
    with consuming(broker) as consumer:
        consumer.assign([TopicPartition("t", 0, 0)])
        epochs = [message.leader_epoch() for message in consumer.consume(2, POLL_S)]
    assert epochs == [0, 2], "without a leader, then with one again"


def test_a_topic_that_does_not_exist_has_no_leader(broker: Broker) -> None:
    with pytest.raises(KafkaError) as caught:
        broker.move_leader("none", 0)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- rebalance ---


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_joins_again(broker: Broker, protocol: str) -> None:
    assigned: list[int] = []
    taken: list[str] = []
    with consuming(broker, **{"group.protocol": protocol}) as consumer:
        consumer.subscribe(
            ["t"],
            on_assign=lambda _, partitions: assigned.append(len(partitions)),
            on_revoke=lambda _, partitions: taken.append("revoked"),
            on_lost=lambda _, partitions: taken.append("lost"),
        )
        until(lambda: assigned == [1], lambda: consumer.poll(0.1))
        broker.rebalance("g")
        until(lambda: assigned == [1, 1], lambda: consumer.poll(0.1))
    assert taken[0] == ("revoked" if protocol == "classic" else "lost")


def test_a_group_that_does_not_exist_cannot_rebalance(broker: Broker) -> None:
    with consuming(broker) as consumer:  # so that the coordinator's topic exists
        consumer.subscribe(["t"])
        until(lambda: bool(broker.requests("JoinGroup")), lambda: consumer.poll(0.1))
    with pytest.raises(KafkaError) as caught:
        broker.rebalance("another")
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND


# --- set_clock ---


def test_kafka_python_sees_the_broker_s_time(broker: Broker) -> None:
    broker.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    broker.set_clock(+DAY_S)
    producer = KafkaProducer(bootstrap_servers=broker.url)
    try:
        sent = producer.send("stamped", b"a").get(POLL_S)
    finally:
        producer.close()
    assert sent.timestamp / 1000 > time.time() + DAY_S - POLL_S


def test_records_expire(broker: Broker) -> None:
    produce(broker, "a", "b")
    with consuming(broker) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), POLL_S) == (0, 2)
        broker.set_clock(8 * DAY_S)
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), POLL_S) == (2, 2)


def test_the_producers_of_partitions_expire(broker: Broker) -> None:
    def known() -> int:
        async def ask() -> int:
            async with open_admin(broker.url) as admin:
                partition = PkPartition("t", 0)
                return len((await admin.describe_producers([partition])).value(partition))

        return trio.run(ask)

    produce(broker, "a", **{"enable.idempotence": True})
    assert known() == 1
    broker.set_clock(2 * DAY_S)
    assert known() == 0


# --- requests ---


def test_what_a_consumer_committed(broker: Broker) -> None:
    produce(broker, "a", "b", "c")
    consumer = KafkaConsumer(
        bootstrap_servers=broker.url, group_id="g", client_id="reader", enable_auto_commit=False
    )
    try:
        consumer.assign([KafkaPythonPartition("t", 0)])
        consumer.seek(KafkaPythonPartition("t", 0), 2)
        assert len(consumer.poll(60_000)) == 1
        consumer.commit()
    finally:
        consumer.close()
    (commit,) = broker.wait_for_requests("OffsetCommit")
    assert (commit.client_id, commit.message.group_id) == ("reader", "g")
    assert commit.message.topics[0].partitions[0].committed_offset == 3
    broker.forget_requests()
    assert broker.requests() == []


def test_the_records_of_a_request_stay_as_they_were(broker: Broker) -> None:
    """They are copied: the connection's buffer receives the next requests."""
    for value in ("a" * 100, "b" * 100):
        produce(broker, value)
    seen = [r.message.topic_data[0].partition_data[0].records for r in broker.requests("Produce")]
    assert [b"a" * 100 in seen[0], b"b" * 100 in seen[1]] == [True, True]
