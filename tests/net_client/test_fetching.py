"""Fetching from a scripted broker: truncation after a change of leader, replicas nearby, lost
sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from net_client.support import ScriptedBroker, scripted_broker, trio_test
from trio.testing import MockClock

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.build import build_batch
from pk.core.values import TopicPartition
from pk.core.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from pk.core.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pk.core.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.errors import LogTruncated
from pk.net.client.fetcher import Session

TOPIC_ID = bytes(15) + b"\1"
TP = TopicPartition("t", 0)


class Partition:
    """The state of a one-partition cluster's brokers."""

    def __init__(self) -> None:
        self.values = [b"%d" % number for number in range(5)]
        self.epochs = [0] * 5
        self.leader = 1
        self.leader_epoch = 0
        self.brokers: list[ScriptedBroker] = []
        self.preferred = -1
        self.session_id = 11
        self.fetches: list[tuple[int, int, int]] = []
        """(broker, session epoch, offset asked for or -1)."""

        self.lose_session = False
        self.asked_epochs: list[int] = []
        """Those that OffsetForLeaderEpoch asked for."""

        self.hold: trio.Event | None = None
        """The next answer about an epoch is sent when it is set."""

        self.hold_fetch: trio.Event | None = None
        """The next Fetch from the end of the log is answered when it is set."""

        self.refuse_once: int = 0
        """The answer to the next Fetch of a broker that does not lead."""

        self._came = trio.Event()

    def _wake(self) -> None:
        self._came.set()
        self._came = trio.Event()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until the requests are as they should be."""
        while not ready():
            await self._came.wait()

    async def fetched_on(self) -> None:
        """Wait for some more Fetches, so that all tasks make progress."""
        seen = len(self.fetches)
        await self.until(lambda: len(self.fetches) > seen + 10)

    def handler(self, node_id: int) -> Any:
        async def handle(request: Any, version: int) -> Any:
            answer = await self._answer(node_id, request)
            self._wake()
            return answer

        return handle

    async def _answer(self, node_id: int, request: Any) -> Any:
        name = type(request).__name__
        if name == "MetadataRequest":
            return self._metadata()
        if name == "OffsetForLeaderEpochRequest":
            asked = request.topics[0].partitions[0].leader_epoch
            self.asked_epochs.append(asked)
            end = sum(epoch <= asked for epoch in self.epochs)
            held, self.hold = self.hold, None
            if held is not None:
                self._wake()
                await held.wait()
            answer = EpochEndOffset(partition=0, leader_epoch=asked, end_offset=end)
            topic = OffsetForLeaderTopicResult(topic="t", partitions=[answer])
            return OffsetForLeaderEpochResponse(topics=[topic])
        if self.hold_fetch is not None and self._is_at_end(request):
            held, self.hold_fetch = self.hold_fetch, None
            self._wake()
            await held.wait()
        return self._fetch(node_id, request)

    def _is_at_end(self, request: Any) -> bool:
        asked = [p.fetch_offset for topic in request.topics for p in topic.partitions]
        return asked == [len(self.values)]

    def _metadata(self) -> MetadataResponse:
        partition = MetadataResponsePartition(leader_id=self.leader, leader_epoch=self.leader_epoch)
        return MetadataResponse(
            controller_id=1,
            brokers=[
                MetadataResponseBroker(node_id=number, host="127.0.0.1", port=broker.port)
                for number, broker in enumerate(self.brokers, 1)
            ],
            topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])],
        )

    def _fetch(self, node_id: int, request: Any) -> FetchResponse:
        asked = [p for topic in request.topics for p in topic.partitions]
        offset = asked[0].fetch_offset if asked else -1
        self.fetches.append((node_id, request.session_epoch, offset))
        if self.lose_session and request.session_epoch > 0:
            self.lose_session = False
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        response = FetchResponse(session_id=self.session_id)
        if not asked:
            return response
        data = PartitionData(high_watermark=len(self.values))
        if asked[0].current_leader_epoch < self.leader_epoch:
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH
            data.current_leader = LeaderIdAndEpoch(
                leader_id=self.leader, leader_epoch=self.leader_epoch
            )
        elif node_id != self.leader and self.refuse_once:
            data.error_code, self.refuse_once = self.refuse_once, 0
        elif node_id == self.leader and self.preferred >= 0:
            data.preferred_read_replica = self.preferred
        elif offset < len(self.values):
            data.records = memoryview(
                build_batch(
                    [(0, None, self.values[offset], ())],
                    base_offset=offset,
                    leader_epoch=self.epochs[offset],
                )
            )
        response.responses = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]
        return response


async def values(consumer: Consumer, count: int) -> list[bytes | None]:
    got: list[bytes | None] = []
    while len(got) < count:
        got += [record.value for record in await consumer.poll()]
    return got


@pytest.mark.parametrize("policy", ["latest", "none"])
@trio_test
async def test_truncation_by_a_new_leader_is_noticed(policy: str) -> None:
    log = Partition()
    async with scripted_broker(log.handler(1)) as broker:
        log.brokers = [broker]
        config = {"auto.offset.reset": policy, "fetch.max.wait.ms": 1, "retry.backoff.ms": 1}
        async with open_consumer(broker.address, config) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
            # The new leader has only three of them, and went on with its own.
            log.values[3:] = [b"three", b"four", b"five"]
            log.epochs[3:] = [1, 1, 1]
            log.leader_epoch = 1
            if policy == "none":
                with pytest.raises(LogTruncated, match="records from 3 to 5 were truncated"):
                    await consumer.poll()
                consumer.seek(TP, 3)
            assert await values(consumer, 3) == [b"three", b"four", b"five"]


@trio_test
async def test_a_leader_without_truncation_is_followed_without_a_gap() -> None:
    log = Partition()
    async with scripted_broker(log.handler(1)) as broker:
        log.brokers = [broker]
        config = {"fetch.max.wait.ms": 1, "retry.backoff.ms": 1}
        async with open_consumer(broker.address, config) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
            log.values.append(b"5")
            log.epochs.append(1)
            log.leader_epoch = 1
            assert await values(consumer, 1) == [b"5"]


@pytest.mark.parametrize("policy", ["latest", "none"])
@trio_test
async def test_an_answer_about_an_epoch_that_poll_has_left_means_no_truncation(policy: str) -> None:
    log = Partition()
    log.session_id = 0  # each Fetch names the partition
    log.epochs = [0, 0, 1, 1, 1]
    log.leader_epoch = 1
    async with scripted_broker(log.handler(1)) as broker:
        log.brokers = [broker]
        config = {"auto.offset.reset": policy, "fetch.max.wait.ms": 1, "retry.backoff.ms": 1}
        async with open_consumer(broker.address, config) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            (first,) = await consumer.poll(records_max=1)
            await log.until(lambda: log.fetches[-1][2] == 5)  # the others are buffered
            hold = log.hold = trio.Event()
            log.leader_epoch = 2
            await log.until(lambda: log.asked_epochs == [0])
            got = [first.value]
            while len(got) < 4:  # across the end of epoch 0
                got += [record.value for record in await consumer.poll(records_max=1)]
            hold.set()
            log.values.append(b"5")
            log.epochs.append(2)
            got += await values(consumer, 2)
            assert got == [b"0", b"1", b"2", b"3", b"4", b"5"]
            assert log.asked_epochs == [0, 1]


@trio_test
async def test_a_fetch_from_before_the_partition_was_given_back_does_not_count() -> None:
    """Its records would come before the position is checked against the leader. The answer about
    the epoch, which is older than they are, would then seem to say that they were truncated."""
    log = Partition()
    log.session_id = 0  # each Fetch names the partition
    async with scripted_broker(log.handler(1)) as broker:
        log.brokers = [broker]
        config = {"fetch.max.wait.ms": 1, "retry.backoff.ms": 1}
        async with open_consumer(broker.address, config) as consumer:
            held = log.hold_fetch = trio.Event()
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
            await log.until(lambda: log.hold_fetch is None)
            consumer.assign([])
            hold = log.hold = trio.Event()
            consumer.assign([TP])
            consumer.seek(TP, 5, leader_epoch=0)
            got: list[bytes | None] = []

            async def read() -> None:
                got.extend(await values(consumer, 2))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await log.until(lambda: log.asked_epochs == [0])
                log.values.append(b"5")
                log.epochs.append(0)
                held.set()
                await log.until(lambda: log.fetches[-1][2] == 5)
                await trio.testing.wait_all_tasks_blocked(0.05)
                hold.set()
                await log.until(lambda: log.fetches[-1][2] == 6)
                log.values.append(b"6")
                log.epochs.append(0)
            assert got == [b"5", b"6"]


@trio_test
async def test_what_is_buffered_and_was_cut_by_a_new_leader_is_not_given() -> None:
    log = Partition()
    log.session_id = 0
    log.epochs = [0, 0, 1, 1, 1]
    log.leader_epoch = 1
    async with scripted_broker(log.handler(1)) as broker:
        log.brokers = [broker]
        config = {"fetch.max.wait.ms": 1, "retry.backoff.ms": 1}
        async with open_consumer(broker.address, config) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert [r.value for r in await consumer.poll(records_max=1)] == [b"0"]
            await log.until(lambda: log.fetches[-1][2] == 5)  # the others are buffered
            log.values[2:] = [b"x", b"y", b"z"]
            log.epochs[2:] = [2, 2, 2]
            log.leader_epoch = 2
            with trio.move_on_after(10):
                await log.until(lambda: log.fetches[-1][2] == 1)
            assert await values(consumer, 4) == [b"1", b"x", b"y", b"z"]


@trio_test
async def test_the_replica_that_the_leader_names_is_read_from() -> None:
    log = Partition()
    log.preferred = 2
    async with scripted_broker(log.handler(1)) as one, scripted_broker(log.handler(2)) as two:
        log.brokers = [one, two]
        config = {"fetch.max.wait.ms": 1, "client.rack": "r"}
        async with open_consumer(one.address, config) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
        assert {node for node, _, offset in log.fetches if offset > 0} == {2}


@pytest.mark.parametrize("leader", [1, 3], ids=["same leader", "new leader"])
def test_the_leader_is_read_from_as_soon_as_the_replicas_time_is_over(leader: int) -> None:
    """Between two refreshes of the metadata nothing else lets the leader's task look again."""
    clock = MockClock(rate=1)

    async def main() -> None:
        log = Partition()
        log.session_id = 0  # each Fetch names the partition
        async with (
            scripted_broker(log.handler(1)) as one,
            scripted_broker(log.handler(2)) as two,
            scripted_broker(log.handler(3)) as three,
        ):
            log.brokers = [one, two, three]
            config = {
                "fetch.max.wait.ms": 1,
                "client.rack": "r",
                "metadata.max.age.ms": 60_000,
                "request.timeout.ms": 600_000,
            }
            async with open_consumer(one.address, config) as consumer:
                consumer.assign([TP])
                consumer.seek(TP, 0)
                assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
                clock.jump(1)  # beyond the pause after the first refresh
                await log.fetched_on()
                clock.jump(29)
                log.preferred = 2  # for a minute; the next refresh is due in half of one
                await log.until(lambda: log.fetches[-1][0] == 2)
                log.preferred, log.leader = -1, leader
                refreshed = trio.Event()
                consumer.cluster.on_metadata.append(refreshed.set)
                clock.jump(35)
                await refreshed.wait()
                await log.fetched_on()
                clock.jump(30)
                log.values.append(b"5")
                log.epochs.append(0)
                with trio.fail_after(20):  # the next refresh is later
                    await log.until(lambda: log.fetches[-1][0] == leader)
                    assert await values(consumer, 1) == [b"5"]

    trio.run(main, clock=clock)


@trio_test
async def test_the_leader_is_read_from_when_the_replica_refuses() -> None:
    log = Partition()
    log.session_id = 0  # each Fetch names the partition
    log.preferred = 2
    log.refuse_once = ErrorCode.UNKNOWN_SERVER_ERROR
    async with scripted_broker(log.handler(1)) as one, scripted_broker(log.handler(2)) as two:
        log.brokers = [one, two]
        config = {"fetch.max.wait.ms": 1, "client.rack": "r", "retry.backoff.max.ms": 1}
        async with open_consumer(one.address, config) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            with pytest.raises(KafkaError) as caught:
                await consumer.poll()
            assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
            with trio.fail_after(20):  # the next refresh is later
                assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("session_id", [0, 11], ids=["sessionless", "lost"])
@trio_test
async def test_a_session_that_is_lost_or_never_there_costs_nothing(session_id: int) -> None:
    log = Partition()
    log.session_id = session_id
    log.lose_session = True
    async with scripted_broker(log.handler(1)) as broker:
        log.brokers = [broker]
        async with open_consumer(broker.address, {"fetch.max.wait.ms": 1}) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
    epochs = [epoch for _, epoch, _ in log.fetches]
    if session_id:
        assert epochs[:3] == [0, 1, 0]
    else:
        assert set(epochs) == {0}


@pytest.mark.parametrize("by_id", [True, False])
def test_a_topic_made_again_is_forgotten_in_sessions_that_know_ids(by_id: bool) -> None:
    """A broker processes forgotten partitions last: by name, a partition both added and forgotten
    in one request would no longer be read."""
    old, new = bytes(15) + b"1", bytes(15) + b"2"
    session = Session()
    at = FetchPartition(partition=0, fetch_offset=5)
    session.request({TP: (old, at)}, by_id=by_id)
    session.answered(7)
    topics, forgotten = session.request({TP: (new, at)}, by_id=by_id)
    assert [(t.topic_id, t.partitions) for t in topics] == [(new, [at])]
    assert [(f.topic_id, f.partitions) for f in forgotten] == ([(old, [0])] if by_id else [])
