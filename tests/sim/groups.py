"""Members of a consumer group of the classic protocol. They join, get partitions, read, commit, and
compare the committed offsets with earlier commits. Now and then one stops for longer than its
session, and continues as if nothing had happened."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

import trio
from sim.chronicle import Violation
from sim.clients import AGAIN, REQUEST_MS, SimClient, fetch_once

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, error_name
from pk.core.values import OFFSETS_TOPIC
from pk.core.wire.codec import decode_whole, encode
from pk.core.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 6_000
HEARTBEAT_S: Final = 1.0
ZOMBIE: Final = 0.01
"""How often a member stops after reading records and before committing them."""
REJOIN: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


@dataclass(slots=True)
class Progress:
    """The progress of one group in one partition, as its members know it."""

    committed: int = 0
    """The highest offset whose commit was acknowledged."""
    processed: int = 0
    """Some member has read every record below it."""


@dataclass(slots=True)
class Group:
    """The common knowledge of the members of one group. Only the history may use it."""

    name: str
    topic: str
    progress: dict[int, Progress] = field(default_factory=dict)
    unsafe: AbstractSet[str] = frozenset()
    """The history's topics that a fault put beyond their promise."""


class Rejoin(Exception):
    """Membership is over: join again."""


class Member(SimClient):
    """One member. It reads its partitions and commits the offsets that it has read."""

    def __init__(self, *args: Any, group: Group, partitions: int) -> None:
        super().__init__(*args)
        self.group = group
        self.partitions = partitions
        for partition in range(partitions):
            group.progress.setdefault(partition, Progress())
        self.member_id = ""
        self.generation = -1
        self.coordinator = -1
        self.positions: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        """Offsets that this member has committed, or has found committed."""

        self._beat_at = 0.0

    async def run(self) -> None:
        """Be a member for ever."""
        await self.places(self.group.topic, self.partitions)
        while True:
            try:
                await self._find()
                await self._join()
                await self._fetch_committed()
                await self._work()
            except PeerLost:
                self.coordinator = -1
                await self.pause()
            except Rejoin:
                await self.pause()
            finally:
                self.positions = {}
                self.committed = {}

    async def _find(self) -> None:
        while self.coordinator < 0:
            answer = await self.ask_any(
                FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group.name])
            )
            (one,) = answer.coordinators
            if one.error_code == 0:
                self.coordinator = one.node_id
            else:
                await self.pause()

    def _check(self, code: int) -> bool:
        """Returns True for no error, False if the request may be tried again there. Raises Rejoin
        and PeerLost."""
        if code == 0:
            return True
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            raise PeerLost("the coordinator moved")
        # A commit of a member after a fault by which the group's own records may be lost.
        lost = code == ErrorCode.GROUP_ID_NOT_FOUND and OFFSETS_TOPIC in self.group.unsafe
        if code in REJOIN or lost:
            if code == ErrorCode.UNKNOWN_MEMBER_ID or lost:
                self.member_id = ""
            raise Rejoin
        if code in AGAIN:
            return False
        raise Violation(
            "a group goes on",
            f"{self.process}: {error_name(code)}",
            self.group.topic,
        )

    async def _join(self) -> None:
        subscription = encode(ConsumerProtocolSubscription(topics=[self.group.topic]), 1)
        metadata = b"\x00\x01" + subscription
        while True:
            request = JoinGroupRequest(
                group_id=self.group.name,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
            )
            answer = await self.ask(self.coordinator, request, REBALANCE_MS + REQUEST_MS)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                continue
            if self._check(answer.error_code):
                break
            await self.pause()
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assignments = []
        if answer.leader == self.member_id:
            members = sorted(member.member_id for member in answer.members)
            for i, member in enumerate(members):
                mine = [p for p in range(self.partitions) if p % len(members) == i]
                body = encode(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[
                            TopicPartition(topic=self.group.topic, partitions=mine)
                        ]
                    ),
                    1,
                )
                assignments.append(
                    SyncGroupRequestAssignment(member_id=member, assignment=b"\x00\x01" + body)
                )
        await self._sync(assignments)

    async def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        request = SyncGroupRequest(
            group_id=self.group.name,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        answer = await self.ask(self.coordinator, request, REBALANCE_MS + REQUEST_MS)
        if not self._check(answer.error_code):
            raise Rejoin
        assigned = decode_whole(ConsumerProtocolAssignment, answer.assignment[2:], 1)
        mine = [p for topic in assigned.assigned_partitions for p in topic.partitions]
        self.positions = dict.fromkeys(mine, 0)
        self.note(f"generation {self.generation} of {self.group.name}: {mine}")

    def _topic_id(self) -> bytes:
        return self.place(self.group.topic, 0).key[0]

    async def _fetch_committed(self) -> None:
        """Fetch the committed offsets of the assigned partitions, once no transaction is about to
        change them."""
        while self.positions and not await self._fetch_stable(list(self.positions)):
            await self.pause()
            await self._beat_if_due()

    async def _fetch_stable(self, partitions: list[int]) -> bool:
        """Begin at the committed offsets of these partitions. Returns False if some are not stable
        yet."""
        before = {p: self.group.progress[p].committed for p in partitions}
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self.group.name,
                    topics=[
                        OffsetFetchRequestTopics(
                            name=self.group.topic,
                            topic_id=self._topic_id(),
                            partition_indexes=partitions,
                        )
                    ],
                )
            ],
            require_stable=True,
        )
        answer = await self.ask(self.coordinator, request)
        (found,) = answer.groups
        if not self._check(found.error_code):
            raise Rejoin
        answers = [one for topic in found.topics for one in topic.partitions]
        if any(one.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT for one in answers):
            return False
        for one in answers:
            if not self._check(one.error_code):
                raise Rejoin
            self._committed(one.partition_index, one.committed_offset, before)
        return True

    def _committed(self, partition: int, offset: int, before: dict[int, int]) -> None:
        progress = self.group.progress[partition]
        where = f"{self.process}: {self.group.name} {self.group.topic}-{partition}"
        if not self._promised():
            progress.committed = progress.processed = 0
        elif max(offset, 0) < before[partition]:
            raise Violation(
                "committed offsets are kept",
                f"{where}: {offset} is fetched, {before[partition]} was committed",
                "__consumer_offsets",
            )
        elif offset > progress.processed:
            raise Violation(
                "committed offsets are kept",
                f"{where}: {offset} is fetched, {progress.processed} was read",
                "__consumer_offsets",
            )
        else:
            progress.committed = max(progress.committed, offset)
        self.positions[partition] = self.committed[partition] = max(offset, 0)

    def _promised(self) -> bool:
        unsafe = self.history.unsafe
        return "__consumer_offsets" not in unsafe and self.group.topic not in unsafe

    async def _work(self) -> None:
        while True:
            if self.positions:
                good = await fetch_once(self, self.group.topic, self.positions, 400)
                if not good:
                    await self.pause()
                    await self.refresh([self.group.topic])
                for partition, position in self.positions.items():
                    progress = self.group.progress[partition]
                    progress.processed = max(progress.processed, position)
                await self.stand_still()
                await self._commit()
            else:
                await self.pause()
            await self._beat_if_due()

    async def stand_still(self, chance: float = ZOMBIE) -> None:
        """Do nothing for a while, now and then: long enough to be taken for dead."""
        if not self.idle and self.random.random() < chance:
            seconds = self.random.random() * 2.5 * SESSION_MS / 1000
            self.note(f"stands still for {seconds:.1f} s")
            await trio.sleep(seconds)

    async def _beat_if_due(self) -> None:
        if trio.current_time() - self._beat_at > HEARTBEAT_S:
            self._beat_at = trio.current_time()
            await self._beat()

    async def _beat(self) -> None:
        answer = await self.ask(
            self.coordinator,
            HeartbeatRequest(
                group_id=self.group.name,
                generation_id=self.generation,
                member_id=self.member_id,
            ),
        )
        self._check(answer.error_code)

    async def _commit(self) -> None:
        due = {
            p: position
            for p, position in self.positions.items()
            if position > self.committed.get(p, 0)
        }
        if not due:
            return
        request = OffsetCommitRequest(
            group_id=self.group.name,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=self.group.topic,
                    topic_id=self._topic_id(),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=p, committed_offset=position, committed_metadata=""
                        )
                        for p, position in due.items()
                    ],
                )
            ],
        )
        answer = await self.ask(self.coordinator, request)
        for topic in answer.topics:
            for one in topic.partitions:
                if self._check(one.error_code):
                    progress = self.group.progress[one.partition_index]
                    self.committed[one.partition_index] = due[one.partition_index]
                    progress.committed = max(progress.committed, due[one.partition_index])
