"""An idempotent producer whose broker forgets, refuses, moves away: a scripted broker that checks
sequences as Kafka does."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from net_client.support import ScriptedBroker, scripted_broker, trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import read_header, records
from pk.core.values import ZERO_UUID, TopicPartition
from pk.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from pk.core.wire.messages.end_txn import EndTxnResponse
from pk.core.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pk.core.wire.messages.init_producer_id import InitProducerIdResponse
from pk.core.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pk.core.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pk.net.client.errors import Closed
from pk.net.client.producer import BatchDelivered, open_producer

TOPIC_ID = bytes(15) + b"\1"
CONFIG = {"linger.ms": 0, "batch.size": 100, "retry.backoff.ms": 1, "retry.backoff.max.ms": 2}


class Log:
    """One partition with Kafka's rules for sequences, and a list of answers to give instead."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.producers: dict[int, tuple[int, int]] = {}
        """Producer id → (epoch, next sequence)."""

        self.batches: list[tuple[int, int, int, int]] = []
        """(epoch, sequence, count, error) as they came."""

        self.instead: dict[int, int] = {}
        """Batch, counted from 0 → the error to answer."""

        self.although: dict[int, int] = {}
        """Batch, counted from 0 → the error to answer although it was appended."""

        self.appended: set[tuple[int, int, int, int]] = set()
        """(producer id, epoch, sequence, count) of the batches in the log, which identifies
        duplicates."""

        self.hold = False
        """Whether a batch is answered only when its producer has nothing more to send."""

        self.epoch = -1
        """The last producer epoch that was given."""

        self.topic_id = TOPIC_ID
        self.known = True
        """Whether the broker that answers Metadata knows the topic."""

        self.forget_at: int | None = None
        self.leaders: list[ScriptedBroker] = []
        self.leader = 0

    def append(self, data: Any) -> int:
        """The error code of appending a batch."""
        header = read_header(data)
        number = len(self.batches)
        if number == self.forget_at:
            self.producers.clear()
            self.appended.clear()
            self.producers[header.producer_id] = (header.producer_epoch, 10_000)
        place = (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.count,
        )
        repeated = place in self.appended
        error = self.instead.get(number) or (0 if repeated else self._check(header))
        appends = not error and not repeated
        error = error or self.although.get(number, 0)
        self.batches.append((*place[1:], error))
        if appends:
            self.appended.add(place)
            self.producers[header.producer_id] = (
                header.producer_epoch,
                header.base_sequence + header.count,
            )
            self.values += [record.value for record in records(data)]
        return error

    def _check(self, header: Any) -> int:
        known = self.producers.get(header.producer_id)
        if known is None:
            return 0
        epoch, expected = known
        if header.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        fresh = header.producer_epoch > epoch
        if header.base_sequence != (0 if fresh else expected):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return 0

    async def handle(self, request: Any, version: int) -> Any:
        """Metadata, InitProducerId, Produce."""
        name = type(request).__name__
        if name == "InitProducerIdRequest":
            self.epoch += 1
            return InitProducerIdResponse(producer_id=9, producer_epoch=self.epoch)
        if name == "MetadataRequest":
            return self._metadata()
        if name == "FindCoordinatorRequest":
            here = {"node_id": 1, "host": "127.0.0.1", "port": self.leaders[0].port}
            keys = [Coordinator(key=key, **here) for key in request.coordinator_keys]
            return FindCoordinatorResponse(coordinators=keys)
        if name == "AddPartitionsToTxnRequest":
            return AddPartitionsToTxnResponse()
        if name == "EndTxnRequest":
            return EndTxnResponse()
        if self.hold:
            await trio.testing.wait_all_tasks_blocked()
        partition = request.topic_data[0].partition_data[0]
        answer = PartitionProduceResponse(index=0, base_offset=len(self.values))
        answer.error_code = self.append(partition.records)
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.leader = 1 - self.leader
            answer.current_leader = LeaderIdAndEpoch(leader_id=self.leader + 1, leader_epoch=5)
        topic = TopicProduceResponse(partition_responses=[answer])
        if version >= 13:
            topic.topic_id = request.topic_data[0].topic_id
        else:
            topic.name = "t"
        return ProduceResponse(responses=[topic])

    def _metadata(self) -> MetadataResponse:
        return MetadataResponse(
            cluster_id="c",
            controller_id=1,
            brokers=[
                MetadataResponseBroker(node_id=number, host="127.0.0.1", port=broker.port)
                for number, broker in enumerate(self.leaders, 1)
            ],
            topics=[self._topic()],
        )

    def _topic(self) -> MetadataResponseTopic:
        if not self.known:
            return MetadataResponseTopic(
                name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic_id=ZERO_UUID
            )
        partition = MetadataResponsePartition(leader_id=self.leader + 1, leader_epoch=self.leader)
        return MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=[partition])


async def produce(log: Log, count: int, brokers: int = 1) -> list[Exception | None]:
    """Produce this many records, a few in each batch, and return the result of each."""
    async with scripted_broker(log.handle) as first, scripted_broker(log.handle) as second:
        log.leaders = [first, second][:brokers]
        outcomes: list[Exception | None] = []
        async with open_producer(first.address, CONFIG) as producer:
            deliveries = [await producer.send("t", b"%03d" % n) for n in range(count)]
            for delivery in deliveries:
                try:
                    await delivery
                except KafkaError as e:
                    outcomes.append(e)
                else:
                    outcomes.append(None)
        return outcomes


@trio_test
async def test_a_refusal_that_lasts_is_reported_and_named_when_time_is_up() -> None:
    log = Log()
    log.instead = dict.fromkeys(range(10_000), int(ErrorCode.KAFKA_STORAGE_ERROR))
    refusals: list[tuple[TopicPartition, KafkaError]] = []
    config = CONFIG | {"delivery.timeout.ms": 2000, "request.timeout.ms": 2000}
    config |= {"retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}  # the time is up first
    async with scripted_broker(log.handle) as broker:
        log.leaders = [broker]
        async with open_producer(
            broker.address, config, on_refusal=lambda tp, error: refusals.append((tp, error))
        ) as producer:
            with pytest.raises(KafkaError) as caught:
                await (await producer.send("t", b"x"))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "delivery.timeout.ms (2000 ms)" in str(caught.value)
    assert refusals[0][0] == TopicPartition("t", 0)
    assert {error.code for _, error in refusals} == {ErrorCode.KAFKA_STORAGE_ERROR}


@trio_test
async def test_an_answer_after_close_does_not_settle_a_batch_again() -> None:
    log = Log()
    asked, answer = trio.Event(), trio.Event()
    delivered: list[BatchDelivered] = []

    async def handle(request: Any, version: int) -> Any:
        if isinstance(request, ProduceRequest):
            asked.set()
            await answer.wait()
        return await log.handle(request, version)

    async with scripted_broker(handle) as broker:
        log.leaders = [broker]
        async with open_producer(broker.address, CONFIG, on_delivery=delivered.append) as producer:
            delivery = await producer.send("t", b"x")
            await asked.wait()
            producer.close()
            with pytest.raises(Closed):
                await delivery
            answer.set()
            while producer.metrics()["requests-in-flight"]:
                await trio.lowlevel.checkpoint()
    assert [type(batch.error) for batch in delivered] == [Closed]


EXPECTED = [b"%03d" % number for number in range(60)]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ],
    ids=lambda e: e.name,
)
@pytest.mark.parametrize("at", [0, 1, 4])
@trio_test
async def test_what_is_refused_in_passing_arrives_once_and_in_order(
    error: ErrorCode, at: int
) -> None:
    log = Log()
    log.instead = {at: error}
    assert await produce(log, 60) == [None] * 60
    assert log.values == EXPECTED
    lost = error not in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)
    assert max(epoch for epoch, _, _, _ in log.batches) == (1 if lost else 0)


@trio_test
async def test_a_broker_that_remembers_otherwise_gets_a_new_epoch_from_sequence_0() -> None:
    log = Log()
    log.forget_at = 3
    assert await produce(log, 60) == [None] * 60
    assert log.values == EXPECTED
    first = next(b for b in log.batches if b[0] == 1)
    assert first[1] == 0


@trio_test
async def test_a_batch_refused_for_good_fails_alone() -> None:
    log = Log()
    log.instead = {2: ErrorCode.INVALID_RECORD}
    outcomes = await produce(log, 60)
    failed = [number for number, error in enumerate(outcomes) if error is not None]
    _, sequence, count, _ = log.batches[2]
    assert failed == list(range(sequence, sequence + count))
    assert log.values == [v for number, v in enumerate(EXPECTED) if number not in failed]


async def three_at_once(log: Log, config: dict[str, object]) -> list[int]:
    """Produce a batch that is acknowledged, and then three that are on their way at once; what
    became of those three."""
    log.hold = True
    codes: list[int] = []
    async with scripted_broker(log.handle) as broker:
        log.leaders = [broker]
        async with open_producer(broker.address, CONFIG | {"batch.size": 1} | config) as producer:
            await (await producer.send("t", b"0"))
            for delivery in [producer.send_nowait("t", b"%d" % n) for n in (1, 2, 3)]:
                try:
                    await delivery
                except KafkaError as e:
                    codes.append(e.code)
                else:
                    codes.append(0)
            await (await producer.send("t", b"4"))
    return codes


@pytest.mark.parametrize(
    "last", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD], ids=lambda e: e.name
)
@trio_test
async def test_what_follows_a_batch_that_may_be_in_the_log_is_written_once(
    last: ErrorCode,
) -> None:
    log = Log()
    log.although = dict.fromkeys((1, 2, 3), int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    log.instead = {4: last}
    assert await three_at_once(log, {"retries": 1}) == [last, 0, 0]
    assert [error for _, _, _, error in log.batches[:5]] == [0, 20, 20, 20, last]
    assert log.values == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("refused", "attempts"),
    [(ErrorCode.NOT_ENOUGH_REPLICAS, [1, 4]), (ErrorCode.KAFKA_STORAGE_ERROR, [1, 4, 5])],
    ids=["known", "not known"],
)
@trio_test
async def test_what_follows_a_batch_that_is_given_up_and_not_in_the_log_is_written_once(
    refused: ErrorCode, attempts: list[int]
) -> None:
    log = Log()
    log.instead = dict.fromkeys(attempts, refused)
    assert await three_at_once(log, {"retries": len(attempts) - 1}) == [refused, 0, 0]
    assert log.values == [b"0", b"2", b"3", b"4"]


@trio_test
async def test_what_comes_before_a_batch_refused_for_good_is_written_once() -> None:
    log = Log()
    log.although = {1: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
    log.instead = {2: ErrorCode.INVALID_RECORD}
    assert await three_at_once(log, {}) == [0, ErrorCode.INVALID_RECORD, 0]
    assert log.values == [b"0", b"1", b"3", b"4"]


@trio_test
async def test_a_leader_that_moved_is_followed_at_its_word() -> None:
    log = Log()
    log.instead = {2: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert await produce(log, 60, brokers=2) == [None] * 60
    assert log.values == EXPECTED
    assert log.leader == 1


@pytest.mark.parametrize("change", ["unknown", "made again"])
@trio_test
async def test_an_answer_counts_though_the_topic_of_its_id_changed_meanwhile(change: str) -> None:
    log = Log()
    came, go_on = trio.Event(), trio.Event()

    async def handle(request: Any, version: int) -> Any:
        if isinstance(request, ProduceRequest) and not came.is_set():
            assert version >= 13, "answers that name no topic"
            came.set()
            await go_on.wait()
        return await log.handle(request, version)

    async with scripted_broker(handle) as broker:
        log.leaders = [broker]
        async with open_producer(broker.address, CONFIG) as producer:
            delivery = await producer.send("t", b"0")
            await came.wait()
            if change == "unknown":
                log.known = False  # a broker that lags behind
            else:
                log.topic_id = bytes(15) + b"\2"
                log.instead = {0: ErrorCode.UNKNOWN_TOPIC_ID}
            await producer.cluster.refresh(["t"])
            go_on.set()
            await delivery
    assert log.values == [b"0"]


@trio_test
async def test_a_transaction_after_one_that_dropped_a_numbered_batch_begins_at_sequence_0() -> None:
    log = Log()
    log.instead = {1: ErrorCode.NOT_ENOUGH_REPLICAS}
    refused = trio.Event()
    config = CONFIG | {"transactional.id": "x"}
    # The refused batch is still waiting when the transaction is aborted.
    config |= {"retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}
    async with scripted_broker(log.handle) as broker:
        log.leaders = [broker]
        async with open_producer(
            broker.address, config, on_refusal=lambda tp, error: refused.set()
        ) as producer:
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await (await producer.send("t", b"0"))
                    await producer.send("t", b"1")
                    await refused.wait()
                    raise ZeroDivisionError
            async with producer.transaction():
                await producer.send("t", b"2")
    assert log.values == [b"0", b"2"]
    assert log.batches[-1] == (1, 0, 1, 0)
