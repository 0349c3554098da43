"""Commits of a member while its group moves: a scripted coordinator that says when a commit is
answered, and what a heartbeat brings meanwhile.

What a member commits must not overwrite what a later owner of the partition has committed, and must
not get lost where the partition is still its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from client.support import ScriptedBroker, scripted_broker, trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.consumer_protocol import encode_assignment
from pk.core.values import TopicPartition
from pk.core.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pk.core.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pk.core.wire.messages.heartbeat import HeartbeatResponse
from pk.core.wire.messages.join_group import JoinGroupResponse
from pk.core.wire.messages.leave_group import LeaveGroupResponse
from pk.core.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pk.core.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pk.core.wire.messages.sync_group import SyncGroupResponse
from pk.net.client.consumer import Consumer, open_consumer

TOPIC_ID = bytes(15) + b"\1"
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEAVE_EPOCH = -1
FAST = {"group.id": "g", "retry.backoff.ms": 1, "retry.backoff.max.ms": 2}
PROTOCOLS = ("classic", "consumer")
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Held:
    """A request that is answered when the test says so."""

    def __init__(self, *codes: int) -> None:
        self.codes = codes
        """What to answer then: one code for each partition, or one for all."""

        self.arrived = trio.Event()
        self.release = trio.Event()

    async def wait(self) -> None:
        self.arrived.set()
        await self.release.wait()


class Answers:
    """A coordinator of group g, whose only member is the one that is tested."""

    def __init__(self) -> None:
        self.broker: ScriptedBroker | None = None
        self.generation = 1
        self.assigned: tuple[TopicPartition, ...] = (P0,)
        self.beat_once: int = 0
        """The error of the next heartbeat."""

        self.commits: list[tuple[int, dict[int, int]]] = []
        """(generation, partition → offset) as they came."""

        self.accepted: list[dict[int, int]] = []
        """The offsets of those that were not refused."""

        self.commit_code: int = 0
        """What other commits are answered."""

        self.held_commits: list[Held] = []
        """What the next commits are answered."""

        self.held_sync: Held | None = None
        self.stored = {0: 150, 1: 150}
        """What OffsetFetch finds."""

        self.story: list[str] = []
        """The requests to the coordinator, heartbeats apart."""

        self.interval_ms = 5
        self.classic = False
        self._came = trio.Event()

    async def handle(self, request: Any, version: int) -> Any:
        name = type(request).__name__.removesuffix("Request")
        if name not in ("Heartbeat", "ConsumerGroupHeartbeat", "Metadata", "Fetch"):
            self.story.append(name)
        answer = await getattr(self, "_" + name)(request)
        self._came.set()
        self._came = trio.Event()
        return answer

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until what was answered makes `ready` true."""
        while not ready():
            await self._came.wait()

    async def _FindCoordinator(self, request: Any) -> Any:
        assert self.broker is not None
        here = {"node_id": 1, "host": "127.0.0.1", "port": self.broker.port}
        keys = [Coordinator(key=key, **here) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=keys)

    async def _Metadata(self, request: Any) -> Any:
        assert self.broker is not None
        partitions = [
            MetadataResponsePartition(partition_index=n, leader_id=1, leader_epoch=0)
            for n in range(2)
        ]
        return MetadataResponse(
            controller_id=1,
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)],
            topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)],
        )

    async def _Fetch(self, request: Any) -> Any:
        await trio.sleep_forever()

    async def _JoinGroup(self, request: Any) -> Any:
        self.classic = True
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_name=request.protocols[0].name,
            protocol_type="consumer",
            leader="somebody else",
            member_id="m",
        )

    async def _SyncGroup(self, request: Any) -> Any:
        held, self.held_sync = self.held_sync, None
        if held is not None:
            self.commit_code = ErrorCode.REBALANCE_IN_PROGRESS
            await held.wait()
            self.commit_code = 0
        return SyncGroupResponse(
            protocol_type="consumer", assignment=encode_assignment(self.assigned)
        )

    async def _Heartbeat(self, request: Any) -> Any:
        code, self.beat_once = self.beat_once, 0
        return HeartbeatResponse(error_code=code)

    async def _LeaveGroup(self, request: Any) -> Any:
        return LeaveGroupResponse()

    async def _ConsumerGroupHeartbeat(self, request: Any) -> Any:
        code, self.beat_once = self.beat_once, 0
        if code or request.member_epoch == LEAVE_EPOCH:
            return ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=LEAVE_EPOCH)
        numbers = [p.partition for p in self.assigned]
        given = [TopicPartitions(topic_id=TOPIC_ID, partitions=numbers)]
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.generation,
            heartbeat_interval_ms=self.interval_ms,
            assignment=Assignment(topic_partitions=given),
        )

    async def _OffsetFetch(self, request: Any) -> Any:
        asked = request.groups[0].topics[0].partition_indexes
        found = [
            OffsetFetchResponsePartitions(partition_index=n, committed_offset=self.stored[n])
            for n in asked
        ]
        topics = [OffsetFetchResponseTopics(name="t", partitions=found)]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])

    async def _OffsetCommit(self, request: Any) -> Any:
        asked = {p.partition_index: p.committed_offset for p in request.topics[0].partitions}
        self.commits.append((request.generation_id_or_member_epoch, asked))
        codes: dict[int, int] = {}
        if not self.classic and 0 <= request.generation_id_or_member_epoch < self.generation:
            codes = dict.fromkeys(asked, int(ErrorCode.STALE_MEMBER_EPOCH))
        if self.held_commits:
            held = self.held_commits.pop(0)
            await held.wait()
            spread = held.codes if len(held.codes) > 1 else held.codes * len(asked)
            codes = dict(zip(asked, spread, strict=True))
        answers = [
            OffsetCommitResponsePartition(
                partition_index=n, error_code=codes.get(n, self.commit_code)
            )
            for n in asked
        ]
        self.accepted += [asked] if not any(a.error_code for a in answers) else []
        topic = OffsetCommitResponseTopic(name="t", partitions=answers)
        return OffsetCommitResponse(topics=[topic])

    def move(self, assigned: tuple[TopicPartition, ...]) -> None:
        """Go on to the next generation, in which the member has `assigned`."""
        self.generation += 1
        self.assigned = assigned
        self.beat_once = ErrorCode.REBALANCE_IN_PROGRESS if self.classic else 0

    def put_out(self) -> None:
        """Tell the member with its next heartbeat that it is none any more."""
        self.generation += 1
        classic = ErrorCode.UNKNOWN_MEMBER_ID
        self.beat_once = classic if self.classic else ErrorCode.FENCED_MEMBER_EPOCH

    def hold_commit(self, *codes: int) -> Held:
        """Hold the next commit of which nobody has said anything yet, and answer it so."""
        self.held_commits.append(held := Held(*codes))
        return held

    def answer_commit(self, *codes: int) -> None:
        """Answer the next commit so, at once."""
        self.hold_commit(*codes).release.set()


@asynccontextmanager
async def coordinator() -> AsyncIterator[Answers]:
    answers = Answers()
    async with scripted_broker(answers.handle) as broker:
        answers.broker = broker
        yield answers


class Member:
    """A consumer that has been given its partitions, and what it was told."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.told: list[str] = []

    def listener(self, word: str) -> Callable[[Iterable[TopicPartition]], Awaitable[None]]:
        async def tell(partitions: Iterable[TopicPartition]) -> None:
            self.told.append(word)

        return tell

    async def poll_until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            await self.consumer.poll(timeout_ms=1)


@asynccontextmanager
async def member(
    answers: Answers, protocol: str, *, auto: bool = False, **more: object
) -> AsyncIterator[Member]:
    """A member that has what it was assigned."""
    assert answers.broker is not None
    config: dict[str, object] = FAST | {"group.protocol": protocol, "enable.auto.commit": auto}
    if protocol == "classic":
        config |= {"partition.assignment.strategy": "cooperative-sticky"}
        config |= {"heartbeat.interval.ms": 5}
    config |= {name.replace("_", "."): value for name, value in more.items()}
    async with open_consumer(answers.broker.address, config) as consumer:
        one = Member(consumer)
        consumer.subscribe(
            ["t"],
            on_revoked=one.listener("revoked"),
            on_lost=one.listener("lost"),
            on_assigned=one.listener("assigned"),
        )
        wanted = frozenset(answers.assigned)
        await one.poll_until(lambda: consumer.assignment == wanted)
        yield one


async def committing(consumer: Consumer, offset: int) -> None:
    """Commit `offset` of partition 0."""
    await consumer.commit({P0: offset})


@trio_test
async def test_a_commit_that_is_cancelled_while_it_waits_lets_no_other_overtake() -> None:
    async with coordinator() as answers, member(answers, "consumer") as one:
        first = answers.hold_commit(LOADING)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committing, one.consumer, 100)
            await first.arrived.wait()
            with trio.move_on_after(0) as scope:
                await one.consumer.commit({P0: 120})
            assert scope.cancelled_caught
            nursery.start_soon(committing, one.consumer, 150)
            await trio.testing.wait_all_tasks_blocked()
            first.release.set()
        assert [offsets for _, offsets in answers.commits] == [{0: 100}, {0: 100}, {0: 150}]


@trio_test
async def test_a_background_commit_that_is_replaced_lets_no_other_overtake() -> None:
    async with (
        coordinator() as answers,
        member(answers, "consumer", auto=True, auto_commit_interval_ms=1) as one,
    ):
        first = answers.hold_commit(LOADING)
        offset = 200
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committing, one.consumer, 100)
            await first.arrived.wait()
            for _ in range(5):
                one.consumer.seek(P0, offset)
                offset += 1
                await one.consumer.poll(timeout_ms=5)
            nursery.start_soon(committing, one.consumer, 300)
            await trio.testing.wait_all_tasks_blocked()
            first.release.set()
        assert [offsets[0] for _, offsets in answers.commits][:2] == [100, 100]
        assert answers.commits[-1][1] == {0: 300}


@trio_test
async def test_only_what_failed_in_passing_is_committed_again() -> None:
    async with coordinator() as answers:
        answers.assigned = (P0, P1)
        async with member(answers, "consumer") as one:
            answers.answer_commit(0, LOADING)
            answers.answer_commit(LOADING)
            await one.consumer.commit({P0: 100, P1: 200})
            assert [o for _, o in answers.commits] == [{0: 100, 1: 200}, {1: 200}, {1: 200}]


@trio_test
async def test_a_partition_that_fails_for_good_keeps_no_other_from_being_committed() -> None:
    async with coordinator() as answers:
        answers.assigned = (P0, P1)
        async with member(answers, "consumer") as one:
            answers.answer_commit(ErrorCode.OFFSET_METADATA_TOO_LARGE, LOADING)
            with pytest.raises(KafkaError) as caught:
                await one.consumer.commit({P0: 100, P1: 200})
            assert caught.value.code == ErrorCode.OFFSET_METADATA_TOO_LARGE
            assert [o for _, o in answers.commits] == [{0: 100, 1: 200}, {1: 200}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_a_topic_that_was_deleted_does_not_hold_up_a_revocation(protocol: str) -> None:
    async with coordinator() as answers, member(answers, protocol, auto=True) as one:
        one.consumer.seek(P0, 100)
        answers.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        answers.move(assigned=())
        await one.poll_until(lambda: "revoked" in one.told)
        assert [offsets for _, offsets in answers.commits] == [{0: 100}]


@trio_test
async def test_a_topic_that_may_be_new_is_waited_for_where_a_program_commits() -> None:
    async with coordinator() as answers, member(answers, "consumer") as one:
        answers.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await one.consumer.commit({P0: 100})
        assert [offsets for _, offsets in answers.commits] == [{0: 100}, {0: 100}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_what_was_asked_for_in_an_earlier_membership_is_not_committed_in_the_next(
    protocol: str,
) -> None:
    async with coordinator() as answers, member(answers, protocol) as one:
        first = answers.hold_commit(LOADING)
        async with trio.open_nursery() as nursery:

            async def commit() -> None:
                with pytest.raises(KafkaError) as caught:
                    await one.consumer.commit({P0: 100, P1: 100})
                assert caught.value.code == ErrorCode.ILLEGAL_GENERATION

            nursery.start_soon(commit)
            await first.arrived.wait()
            answers.put_out()
            await one.poll_until(lambda: one.told == ["assigned", "lost", "assigned"])
            first.release.set()
        await one.consumer.commit({P0: 150})
        assert answers.commits == [(1, {0: 100, 1: 100}), (2, {0: 150})]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_an_old_commit_in_the_background_does_not_go_back_behind_the_next_owners(
    protocol: str,
) -> None:
    async with (
        coordinator() as answers,
        member(answers, protocol, auto=True, auto_commit_interval_ms=1) as one,
    ):
        one.consumer.seek(P0, 100)
        first = answers.hold_commit(LOADING)
        await one.poll_until(first.arrived.is_set)
        before = len(answers.commits)
        answers.put_out()
        await one.poll_until(lambda: one.told == ["assigned", "lost", "assigned"])
        first.release.set()
        await one.poll_until(lambda: (2, {0: 150}) in answers.commits)
        assert all(commit == (2, {0: 150}) for commit in answers.commits[before:])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_a_partition_that_was_given_up_meanwhile_is_left_out(protocol: str) -> None:
    async with coordinator() as answers:
        answers.assigned = (P0, P1)
        async with member(answers, protocol) as one, trio.open_nursery() as nursery:
            first = answers.hold_commit(LOADING)

            async def commit() -> None:
                with pytest.raises(KafkaError) as caught:
                    await one.consumer.commit({P0: 100, P1: 200})
                assert caught.value.code == ErrorCode.ILLEGAL_GENERATION
                nursery.cancel_scope.cancel()

            nursery.start_soon(commit)
            await first.arrived.wait()
            answers.move(assigned=(P1,))
            await one.poll_until(lambda: one.consumer.assignment == {P1})
            first.release.set()
            await trio.sleep_forever()
        assert [offsets for _, offsets in answers.commits] == [{0: 100, 1: 200}, {1: 200}]


@trio_test
async def test_what_is_committed_without_a_group_does_not_depend_on_what_is_assigned() -> None:
    async with coordinator() as answers:
        assert answers.broker is not None
        async with open_consumer(answers.broker.address, FAST) as consumer:
            consumer.assign([P0])
            first = answers.hold_commit(LOADING)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(committing, consumer, 100)
                await first.arrived.wait()
                consumer.assign([P1])
                first.release.set()
        assert answers.commits[:2] == [(-1, {0: 100}), (-1, {0: 100})]


@trio_test
async def test_a_commit_that_comes_before_its_epoch_waits_for_the_heartbeat_that_brings_it() -> (
    None
):
    async with coordinator() as answers, member(answers, "consumer", auto=True) as one:
        one.consumer.seek(P0, 100)
        # The partition was to go, and is free again: the member stands an epoch behind.
        refused = answers.hold_commit(ErrorCode.STALE_MEMBER_EPOCH)
        answers.interval_ms = 60_000
        answers.move(assigned=())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.poll_until, lambda: "revoked" in one.told)
            await refused.arrived.wait()
            answers.move(assigned=(P0,))
            refused.release.set()
        assert answers.commits[-1] == (3, {0: 100})
        assert answers.accepted == [{0: 100}]


@trio_test
async def test_a_commit_with_an_old_epoch_is_given_up_once_the_member_is_out() -> None:
    async with coordinator() as answers, member(answers, "consumer") as one:
        answers.commit_code = ErrorCode.STALE_MEMBER_EPOCH
        async with trio.open_nursery() as nursery:

            async def commit() -> None:
                with pytest.raises(KafkaError) as caught:
                    await one.consumer.commit({P0: 100})
                assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID

            nursery.start_soon(commit)
            await answers.until(lambda: len(answers.commits) > 1)
            answers.put_out()
        assert {commit[0] for commit in answers.commits} == {1}


@trio_test
async def test_a_commit_between_join_and_sync_is_made_with_the_new_generation() -> None:
    async with coordinator() as answers, member(answers, "classic") as one:
        sync = answers.held_sync = Held()
        answers.move(assigned=(P0,))
        await sync.arrived.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committing, one.consumer, 100)
            await trio.sleep(0.05)  # time for a commit, which may not come yet
            sync.release.set()
        assert answers.commits == [(2, {0: 100})]
        await one.poll_until(lambda: one.told == ["assigned", "assigned"])
        assert answers.story.count("SyncGroup") == 2


@trio_test
async def test_a_commit_of_the_generation_that_a_rebalance_ended_is_repeated_with_the_next() -> (
    None
):
    async with coordinator() as answers, member(answers, "classic") as one:
        refused = answers.hold_commit(ErrorCode.ILLEGAL_GENERATION)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committing, one.consumer, 100)
            await refused.arrived.wait()
            answers.move(assigned=(P0,))
            await one.poll_until(lambda: one.told == ["assigned", "assigned"])
            refused.release.set()
        assert answers.commits == [(1, {0: 100}), (2, {0: 100})]


@trio_test
async def test_who_closes_between_join_and_sync_has_committed_when_it_leaves() -> None:
    async with coordinator() as answers, member(answers, "classic", auto=True) as one:
        one.consumer.seek(P0, 100)
        sync = answers.held_sync = Held()
        answers.move(assigned=(P0,))
        await sync.arrived.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.consumer.close)
            await trio.sleep(0.05)  # time for a commit, which may not come yet
            sync.release.set()
        assert answers.accepted == [{0: 100}]
        assert answers.story[-1] == "LeaveGroup"


@trio_test
async def test_a_partition_that_is_not_held_is_not_committed_with_a_generation_to_come() -> None:
    async with coordinator() as answers, member(answers, "classic") as one:
        sync = answers.held_sync = Held()
        answers.move(assigned=(P0,))
        await sync.arrived.wait()
        with pytest.raises(KafkaError) as caught:
            await one.consumer.commit({P1: 100})
        assert caught.value.code == ErrorCode.REBALANCE_IN_PROGRESS
        sync.release.set()
        await one.poll_until(lambda: one.told == ["assigned", "assigned"])
        assert answers.story.count("SyncGroup") == 2
