"""Members of a consumer group of KIP-848, and who owns what: one member an assigned partition, at
any time and in an epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import trio
from sim.chronicle import Violation
from sim.groups import SESSION_MS, Group, Member, Rejoin

from pk.core.errors import ErrorCode
from pk.core.values import coordinator_partition
from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

KEYS: Final = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
}
"""Configs of the brokers, so that sessions end within a run."""

REBALANCE_MS: Final = 60_000
JOINS: Final = 0

FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


@dataclass(slots=True)
class Holding:
    """The partitions that a member was assigned and has not given up, as far as it knows."""

    partitions: set[int] = field(default_factory=set)
    alive_s: float = float("-inf")
    """When it sent the last heartbeat that the coordinator answered well: its session lasts at
    least from then."""


@dataclass(slots=True)
class Owners:
    """The owners of a group's partitions. Only the history may use it."""

    group: Group
    holdings: dict[str, Holding] = field(default_factory=dict)
    """Holdings by member id."""
    by_epoch: dict[tuple[int, int], str] = field(default_factory=dict)
    """(partition, epoch) → the member that was assigned it in that epoch."""

    def assigned(self, member_id: str, epoch: int, partitions: set[int], now_s: float) -> None:
        """A member was assigned these partitions in an epoch. Raises Violation where another has
        one of them."""
        mine = self.holdings.setdefault(member_id, Holding())
        for partition in partitions:
            owner = self.by_epoch.setdefault((partition, epoch), member_id)
            if owner != member_id:
                self._shared(partition, f"{owner} and {member_id} in epoch {epoch}")
            if partition in mine.partitions:
                continue
            for other, held in self.holdings.items():
                lives = now_s - held.alive_s < SESSION_MS / 1000
                if other != member_id and partition in held.partitions and lives:
                    self._shared(partition, f"{member_id} is assigned it, and {other} has it")
        mine.partitions = partitions

    def _shared(self, partition: int, what: str) -> None:
        raise Violation(
            "one member an assigned partition",
            f"{self.group.name} {self.group.topic}-{partition}: {what}",
            "__consumer_offsets",
        )

    def gone(self, member_id: str) -> None:
        """A member gave up everything, or was told that it is no member."""
        self.holdings.pop(member_id, None)


class ConsumerMember(Member):
    """One member of the new protocol: the coordinator assigns, and takes away one partition after
    another."""

    def __init__(self, *args: Any, owners: Owners, **more: Any) -> None:
        super().__init__(*args, **more)
        self.owners = owners
        self._lives = 0

    async def _join(self) -> None:
        self.owners.gone(self.member_id)
        if not self.member_id:
            self._lives += 1
            self.member_id = f"{self.process.name}-life{self._lives}"
        self.generation = JOINS
        self.positions = {}
        while not await self._beat_once():
            await self.pause()

    def _check(self, code: int) -> bool:
        if code in FENCED:
            self.owners.gone(self.member_id)
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            raise Rejoin
        if code == ErrorCode.GROUP_ID_NOT_FOUND and "__consumer_offsets" in self.history.unsafe:
            # All that were in sync crashed: the group is lost, and this member with it.
            self.owners.gone(self.member_id)
            self.member_id = ""
            raise Rejoin
        if code == ErrorCode.STALE_MEMBER_EPOCH:
            return False
        return super()._check(code)

    def _coordinates(self, node_id: int) -> bool:
        """Whether a node coordinates the group. One that was replaced and cannot hear of it answers
        heartbeats, which write nothing, and the new one knows nothing of them."""
        topic = self.history.metadata.image.topics.get("__consumer_offsets")
        if topic is None:
            return False
        number = coordinator_partition(self.group.name, len(topic.partitions))
        return topic.partitions[number].leader == node_id

    async def _beat(self) -> None:
        before = set(self.positions)
        await self._beat_once()
        if set(self.positions) - before:
            await self._fetch_committed()

    async def _beat_once(self) -> bool:
        """Heartbeat: learn the epoch, give up revoked partitions, take assigned ones. Returns False
        if the member should try again."""
        sent_s = trio.current_time()
        joins = self.generation == JOINS
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[self.group.topic],
            server_assignor="uniform" if joins else None,
            topic_partitions=[
                TopicPartitions(topic_id=self._topic_id(), partitions=sorted(self.positions))
            ]
            if self.positions
            else [],
        )
        answer = await self.ask(self.coordinator, request)
        if not self._check(answer.error_code):
            return False
        self.generation = answer.member_epoch
        holding = self.owners.holdings.setdefault(self.member_id, Holding())
        if self._coordinates(self.coordinator):
            holding.alive_s = sent_s
        if answer.assignment is not None:
            mine = {p for t in answer.assignment.topic_partitions for p in t.partitions}
            if self._promised():
                self.owners.assigned(self.member_id, self.generation, mine, trio.current_time())
            self.note(f"epoch {self.generation} of {self.group.name}: {sorted(mine)}")
            for partition in [p for p in self.positions if p not in mine]:
                del self.positions[partition]
                self.committed.pop(partition, None)
            for partition in sorted(mine - self.positions.keys()):
                self.positions[partition] = 0
        return True
