"""A scripted coordinator for one member, by the classic and the consumer protocol: the test says
when it answers, and what a heartbeat brings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio
from net_client.support import ScriptedBroker, scripted_broker

from pk.core.errors import ErrorCode
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
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
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
        """The answer: one code for each partition, or one for all."""

        self.arrived = trio.Event()
        self.release = trio.Event()

    async def wait(self) -> None:
        self.arrived.set()
        await self.release.wait()


class ScriptedGroup:
    """A coordinator of group g, whose only member is the one that is tested."""

    def __init__(self) -> None:
        self.brokers: list[ScriptedBroker] = []
        """The partitions' leader, and the group's coordinator."""

        self.generation = 1
        self.assigned: tuple[TopicPartition, ...] = (P0,)
        self.beat_once: int = 0
        """The error of the next heartbeat."""

        self.commits: list[tuple[int, dict[int, int]]] = []
        """(generation, partition → offset) as they came."""

        self.accepted: list[dict[int, int]] = []
        """The offsets of those that were not refused."""

        self.commit_code: int = 0
        """The answer to other commits."""

        self.held_commits: list[Held] = []
        """The answers to the next commits."""

        self.held_sync: Held | None = None
        self.held_fetch: Held | None = None
        """The next OffsetFetch; it finds what is stored when it comes."""

        self.stored = {0: 150, 1: 150}
        """The offsets that OffsetFetch finds."""

        self.story: list[str] = []
        """The requests to the coordinator, heartbeats apart."""

        self.interval_ms = 5
        self.classic = False
        self._came = trio.Event()

    @property
    def address(self) -> str:
        return self.brokers[0].address

    async def handle(self, request: Any, version: int) -> Any:
        name = type(request).__name__.removesuffix("Request")
        if name not in ("Heartbeat", "ConsumerGroupHeartbeat", "Metadata", "Fetch"):
            self.story.append(name)
        answer = await getattr(self, "_" + name)(request)
        self._came.set()
        self._came = trio.Event()
        return answer

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until the answers make `ready` true."""
        while not ready():
            await self._came.wait()

    async def _FindCoordinator(self, request: Any) -> Any:
        here = {"node_id": 2, "host": "127.0.0.1", "port": self.brokers[1].port}
        keys = [Coordinator(key=key, **here) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=keys)

    async def _Metadata(self, request: Any) -> Any:
        partitions = [
            MetadataResponsePartition(partition_index=n, leader_id=1, leader_epoch=0)
            for n in range(2)
        ]
        return MetadataResponse(
            controller_id=1,
            brokers=[
                MetadataResponseBroker(node_id=number, host="127.0.0.1", port=broker.port)
                for number, broker in enumerate(self.brokers, 1)
            ],
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
        held, self.held_fetch = self.held_fetch, None
        if held is not None:
            await held.wait()
        topics = [OffsetFetchResponseTopics(name="t", partitions=found)]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])

    async def _ListOffsets(self, request: Any) -> Any:
        asked = request.topics[0].partitions
        found = [
            ListOffsetsPartitionResponse(
                partition_index=p.partition_index, offset=7, leader_epoch=0
            )
            for p in asked
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])

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
        """Hold the next commit that has no planned answer, and then answer it with `codes`."""
        self.held_commits.append(held := Held(*codes))
        return held

    def answer_commit(self, *codes: int) -> None:
        """Answer the next commit so, at once."""
        self.hold_commit(*codes).release.set()


@asynccontextmanager
async def coordinator() -> AsyncIterator[ScriptedGroup]:
    answers = ScriptedGroup()
    async with scripted_broker(answers.handle) as leader, scripted_broker(answers.handle) as other:
        answers.brokers = [leader, other]
        yield answers


class Member:
    """A consumer that has its partitions, and the answers it received."""

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
    answers: ScriptedGroup, protocol: str, *, auto: bool = False, **more: object
) -> AsyncIterator[Member]:
    """A member that has its assigned partitions."""
    config: dict[str, object] = FAST | {"group.protocol": protocol, "enable.auto.commit": auto}
    if protocol == "classic":
        config |= {"partition.assignment.strategy": "cooperative-sticky"}
        config |= {"heartbeat.interval.ms": 5}
    config |= {name.replace("_", "."): value for name, value in more.items()}
    async with open_consumer(answers.address, config) as consumer:
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
