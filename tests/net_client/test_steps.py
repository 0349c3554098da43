"""A program's actions between a coordinator's answer and a poll: members that poll late, whose
polls are canceled, whose callbacks fail, and that unsubscribe. Two members never read the same
partition, and no partition is forgotten.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
import trio
from net_client.support import eventually, scripted_broker, trio_test
from two_partitions import TOPIC_ID, Two

from pk.core.errors import ErrorCode
from pk.core.group.consumer_protocol import encode_assignment
from pk.core.values import TopicPartition
from pk.core.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pk.core.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pk.core.wire.messages.heartbeat import HeartbeatResponse
from pk.core.wire.messages.join_group import JoinGroupResponse
from pk.core.wire.messages.leave_group import LeaveGroupResponse
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pk.core.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from pk.core.wire.messages.sync_group import SyncGroupResponse
from pk.net.client import consumer as consumer_module
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.errors import Closed

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEFT = -1


class Coordinated(Two):
    """Two partitions, and the coordinator of a group: it gives its member what the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.target: list[int] | None = [0, 1]
        """The assignment in the next heartbeat (KIP-848) or SyncGroup; None if it is unchanged."""

        self.code = 0
        """The error in the answer to the next heartbeat."""

        self.interval_ms = 1
        self.heartbeats: list[ConsumerGroupHeartbeatRequest] = []
        """Those that were answered; of the classic protocol only how many."""

        self.commits: list[dict[int, int]] = []
        self.changed = trio.Event()
        self.hold: trio.Event | None = None
        """Commits are answered when it is set."""

        self.hold_heartbeat: trio.Event | None = None
        self.held_heartbeats = 0
        self.generation = 0

    async def handle(self, request: Any, version: int) -> Any:
        name = type(request).__name__
        if name == "OffsetCommitRequest":
            return await self._commit(request)
        if name == "ConsumerGroupHeartbeatRequest" and self.hold_heartbeat is not None:
            self.held_heartbeats += 1
            self._wake()
            await self.hold_heartbeat.wait()
        answer = await super().handle(request, version)
        self._wake()
        return answer

    def _wake(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until the requests are as they should be."""
        while not ready():
            await self.changed.wait()

    async def beats(self, count: int = 2) -> None:
        """Wait for this many more heartbeats: the first may have been in flight."""
        wanted = len(self.heartbeats) + count
        await self.until(lambda: len(self.heartbeats) >= wanted)

    async def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        (topic,) = request.topics
        self.commits.append({p.partition_index: p.committed_offset for p in topic.partitions})
        self._wake()
        if self.hold is not None:
            await self.hold.wait()
        done = [OffsetCommitResponsePartition(partition_index=p) for p in self.commits[-1]]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=done)])

    def _FindCoordinatorRequest(self, request: Any) -> FindCoordinatorResponse:
        assert self.broker is not None
        here = {"node_id": 1, "host": "127.0.0.1", "port": self.broker.port}
        keys = [Coordinator(key=key, **here) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=keys)

    def _OffsetFetchRequest(self, request: Any) -> OffsetFetchResponse:
        groups = [OffsetFetchResponseGroup(group_id=g.group_id) for g in request.groups]
        return OffsetFetchResponse(groups=groups)

    def _ConsumerGroupHeartbeatRequest(self, request: Any) -> ConsumerGroupHeartbeatResponse:
        self.heartbeats.append(request)
        if request.member_epoch == LEFT:
            return ConsumerGroupHeartbeatResponse(member_epoch=LEFT)
        code, self.code = self.code, 0
        target, self.target = self.target, None
        given = Assignment()
        if target:
            given.topic_partitions = [TopicPartitions(topic_id=TOPIC_ID, partitions=target)]
        return ConsumerGroupHeartbeatResponse(
            error_code=code,
            member_epoch=7,
            heartbeat_interval_ms=self.interval_ms,
            assignment=None if target is None else given,
        )

    def _JoinGroupRequest(self, request: Any) -> JoinGroupResponse:
        self.generation += 1
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_name=request.protocols[0].name,
            leader="another",
            member_id="me",
        )

    def _SyncGroupRequest(self, _: Any) -> SyncGroupResponse:
        given = [TopicPartition("t", number) for number in self.target or ()]
        return SyncGroupResponse(assignment=encode_assignment(given))

    def _HeartbeatRequest(self, _: Any) -> HeartbeatResponse:
        self.heartbeats.append(ConsumerGroupHeartbeatRequest())
        code, self.code = self.code, 0
        return HeartbeatResponse(error_code=code)

    def _LeaveGroupRequest(self, _: Any) -> LeaveGroupResponse:
        return LeaveGroupResponse()

    def epochs(self) -> list[int]:
        """Those in the heartbeats."""
        return [beat.member_epoch for beat in self.heartbeats]

    def named(self) -> list[int]:
        """The partitions that the last heartbeat names as owned."""
        last = self.heartbeats[-1]
        return [p for topic in last.topic_partitions or () for p in topic.partitions]


@asynccontextmanager
async def member(cluster: Coordinated, protocol: str, **more: Any) -> AsyncIterator[Consumer]:
    config = {
        "group.id": "g",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 10,
    }
    if protocol == "classic":
        config |= {
            "heartbeat.interval.ms": 1,
            "partition.assignment.strategy": "cooperative-sticky",
        }
    async with (
        scripted_broker(cluster.handle) as cluster.broker,
        open_consumer(cluster.broker.address, config | more) as consumer,
    ):
        yield consumer


async def assigned(consumer: Consumer, *partitions: TopicPartition) -> None:
    """Poll until it has them."""
    while consumer.assignment != set(partitions):
        await consumer.poll(timeout_ms=1)


@trio_test
async def test_what_poll_will_still_take_is_named_as_held() -> None:
    cluster = Coordinated()
    async with member(cluster, "consumer") as consumer:
        consumer.subscribe(["t"])
        await cluster.until(lambda: cluster.target is None)
        await cluster.until(lambda: cluster.named() == [0, 1])  # before the program polls
        assert not consumer.assignment
        cluster.target = [0]
        await cluster.until(lambda: cluster.named() == [0])
        await consumer.poll(timeout_ms=0)
        assert consumer.assignment == {P0}


@trio_test
async def test_what_a_poll_is_about_to_take_is_named_as_held() -> None:
    cluster = Coordinated()
    cluster.target = [0]
    revoking, go_on = trio.Event(), trio.Event()

    async def slow(_: object) -> None:
        revoking.set()
        await go_on.wait()

    async with member(cluster, "consumer") as consumer, trio.open_nursery() as nursery:
        consumer.subscribe(["t"], on_revoked=slow)
        await assigned(consumer, P0)
        cluster.target = [1]
        nursery.start_soon(assigned, consumer, P1)
        await revoking.wait()
        await cluster.beats()
        assert cluster.named() == [0, 1]
        cluster.target = []  # overtakes the step that poll is in
        await cluster.until(lambda: cluster.target is None)
        await cluster.beats()
        assert cluster.named() == [0, 1]
        nursery.cancel_scope.cancel()
        go_on.set()


@trio_test
async def test_a_wish_during_a_heartbeat_is_said_after_it() -> None:
    cluster = Coordinated()
    async with member(cluster, "consumer") as consumer:
        consumer.subscribe(["t"])
        await assigned(consumer, P0, P1)
        cluster.hold_heartbeat = trio.Event()
        await cluster.until(lambda: cluster.held_heartbeats > 0)
        consumer.subscribe(["u"])  # a wish that the one under way does not have
        cluster.interval_ms = 3_600_000
        cluster.hold_heartbeat.set()
        await cluster.until(lambda: cluster.heartbeats[-1].subscribed_topic_names == ["u"])


PROTOCOLS = ["classic", "consumer"]


async def reassign(cluster: Coordinated, consumer: Consumer, protocol: str) -> None:
    """The member has 0, and is to have 1 instead."""
    cluster.target = [1]
    if protocol == "classic":
        cluster.code = ErrorCode.REBALANCE_IN_PROGRESS
    await consumer.poll(timeout_ms=0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_a_callback_that_fails_keeps_no_partition_from_coming(protocol: str) -> None:
    cluster = Coordinated()
    cluster.target = [0]
    given: list[tuple[TopicPartition, ...]] = []

    async def fail(_: object) -> None:
        raise RuntimeError("the program's own")

    async def note(partitions: tuple[TopicPartition, ...]) -> None:
        given.append(partitions)

    async with member(cluster, protocol) as consumer:
        consumer.subscribe(["t"], on_revoked=fail, on_assigned=note)
        await assigned(consumer, P0)
        with pytest.raises(RuntimeError, match="own"):
            await reassign(cluster, consumer, protocol)
            await assigned(consumer, P1)
        await assigned(consumer, P1)
        # The classic protocol joins once more after a revocation, which may be done already and
        # gives nothing new.
        assert [partition for partitions in given for partition in partitions] == [P0, P1]
        consumer.subscribe(["t"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_a_poll_that_is_cancelled_before_the_commit_ends_gives_nothing_up(
    protocol: str,
) -> None:
    cluster = Coordinated()
    cluster.target = [0]
    revoked: list[tuple[TopicPartition, ...]] = []

    async def note(partitions: tuple[TopicPartition, ...]) -> None:
        revoked.append(partitions)

    async with member(cluster, protocol) as consumer:
        consumer.subscribe(["t"], on_revoked=note)
        await assigned(consumer, P0)
        assert await consumer.position(P0) == 0
        cluster.hold = trio.Event()
        await reassign(cluster, consumer, protocol)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(assigned, consumer, P1)
            await cluster.until(lambda: bool(cluster.commits))
            nursery.cancel_scope.cancel()
        assert consumer.assignment == {P0} and not revoked
        cluster.hold.set()
        await assigned(consumer, P1)
        assert revoked == [(P0,)]
        assert len(cluster.commits) == 2


def generation_of(consumer: Consumer) -> Callable[[], Awaitable[int]]:
    async def ask() -> int:
        me = consumer.group_metadata
        return me.generation

    return ask


@pytest.mark.parametrize("again", ["by hand", "subscribed"])
@pytest.mark.parametrize("pending", ["assign", "revoke", "lost", "lost (KIP-848)"])
@trio_test
async def test_what_poll_was_to_do_ends_with_the_subscription(pending: str, again: str) -> None:
    cluster = Coordinated()
    cluster.target = [0]
    protocol = "classic" if pending in ("revoke", "lost") else "consumer"
    eager = {"partition.assignment.strategy": "range"} if protocol == "classic" else {}
    async with member(cluster, protocol, **eager) as consumer:
        consumer.subscribe(["t"])
        if pending == "assign":
            await cluster.beats()
        else:
            await assigned(consumer, P0)
            rejoin = pending == "revoke"
            cluster.code = (
                ErrorCode.REBALANCE_IN_PROGRESS if rejoin else ErrorCode.UNKNOWN_MEMBER_ID
            )
            await cluster.until(lambda: cluster.code == 0)
            if rejoin:
                await cluster.beats()
            else:
                await eventually(generation_of(consumer), -1)
        await consumer.unsubscribe()
        assert not consumer.assignment
        if again == "by hand":
            consumer.assign([P0, P1])
            await consumer.poll(timeout_ms=0)
            assert consumer.assignment == {P0, P1}
        else:
            cluster.target = [1]
            consumer.subscribe(["t"])
            await consumer.poll(timeout_ms=0)
            assert P0 not in consumer.assignment
            await assigned(consumer, P1)


@trio_test
async def test_a_group_is_left_though_a_callback_fails() -> None:
    cluster = Coordinated()

    async def fail(_: object) -> None:
        raise RuntimeError("the program's own")

    async with member(cluster, "consumer") as consumer:
        consumer.subscribe(["t"], on_revoked=fail)
        await assigned(consumer, P0, P1)
        with pytest.raises(RuntimeError, match="own"):
            await consumer.unsubscribe()
        assert cluster.epochs()[-1] == LEFT
        assert not consumer.assignment and not consumer.subscription


@trio_test
async def test_a_callback_can_commit_while_the_consumer_closes() -> None:
    cluster = Coordinated()
    async with member(cluster, "consumer", **{"enable.auto.commit": False}) as consumer:

        async def commit(_: object) -> None:
            await consumer.commit()
            with pytest.raises(Closed):
                await consumer.poll()

        consumer.subscribe(["t"], on_revoked=commit)
        await assigned(consumer, P0, P1)
        for partition in (P0, P1):
            assert await consumer.position(partition) >= 0
        await consumer.close()
        assert [sorted(offsets) for offsets in cluster.commits] == [[0, 1]]
        assert cluster.epochs()[-1] == LEFT
        with pytest.raises(Closed):
            await consumer.commit()


@pytest.mark.parametrize("end", ["fails", "takes too long"])
@trio_test
async def test_a_consumer_that_closes_leaves_its_group_whatever_its_callback_does(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Coordinated()
    if end == "takes too long":
        monkeypatch.setattr(consumer_module, "_LEAVE_MS", 5_000)

    async def on_revoked(_: object) -> None:
        if end == "takes too long":
            await trio.sleep_forever()
        raise RuntimeError("the program's own")

    async with member(cluster, "consumer") as consumer:
        consumer.subscribe(["t"], on_revoked=on_revoked)
        await assigned(consumer, P0, P1)
        with pytest.raises(RuntimeError, match="own") if end == "fails" else nullcontext():
            await consumer.close()
        assert cluster.epochs()[-1] == LEFT
