"""Members of a share group on brokers in memory, and notes of the records that they get."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import trio
from broker.cluster import Cluster

from pk.core.errors import ErrorCode
from pk.core.group.share.group import ShareGroup
from pk.core.meta.events import GROUP, ConfigChanged, FeatureChanged
from pk.core.meta.features import SHARE_VERSION
from pk.core.record.batch import iter_headers, records
from pk.core.share.partition_state import AcknowledgeType
from pk.core.values import OFFSETS_TOPIC, SHARE_STATE_TOPIC, Uuid
from pk.core.wire.messages import share_acknowledge as acknowledging
from pk.core.wire.messages import share_fetch as fetching
from pk.core.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

E = ErrorCode
KEYS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
    "group.share.delivery.count.limit": "10",
}
GROUP_ID = "g"
ACCEPT = AcknowledgeType.ACCEPT
RELEASE = AcknowledgeType.RELEASE
_COUNT = iter(range(1, 1 << 30))


async def prepare(cluster: Cluster, nodes: Sequence[int] = (1, 2, 3)) -> Uuid:
    """Internal topics and a topic "t", each of one partition and led by another node; a group that
    begins at the first record, initialized. The id of "t"."""
    await cluster.decide(FeatureChanged(SHARE_VERSION, 1))
    configs = {"min.insync.replicas": "2"} if len(nodes) > 2 else {}
    first, around = nodes[0], [[*nodes[n:], *nodes[:n]] for n in range(len(nodes))]
    await cluster.create(*around[0], topic=OFFSETS_TOPIC, configs=configs)
    await cluster.create(*around[1 % len(nodes)], topic=SHARE_STATE_TOPIC, configs=configs)
    topic_id = await cluster.create(*around[2 % len(nodes)], topic="t", configs=configs)
    await cluster.decide(ConfigChanged(GROUP, GROUP_ID, "share.auto.offset.reset", "earliest"))
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP_ID, member_id="first", subscribed_topic_names=["t"]
    )

    def initialized() -> bool:
        machine = cluster.broker(first).groups.coordinators.at(0).machine
        group = machine.groups.get_of(ShareGroup, GROUP_ID)
        return group is not None and topic_id in group.state_partitions.initialized

    while (await cluster.ask(first, request, 1)).error_code:  # noqa: ASYNC110 (it loads)
        await trio.sleep(0.02)
    await cluster.until(initialized)
    return topic_id


class Seen(NamedTuple):
    """A record that was delivered."""

    offset: int
    value: bytes | None
    delivery_count: int


class Notes:
    """The observations of all members of a group. Each entry is checked as it arrives against the
    promises that always hold."""

    def __init__(self) -> None:
        self.accepted: dict[int, str] = {}
        """Offset → the member whose acceptance was confirmed."""
        self.maybe: set[int] = set()
        """Offsets whose acceptance was asked for, with unknown outcome."""
        self.deliveries: dict[int, int] = defaultdict(int)
        self.holders: dict[int, tuple[str, int]] = {}
        """Offset → (member, leader epoch) that holds it, as far as the member knows."""

    def delivered(
        self, member_id: str, leader_epoch: int, asked_after: frozenset[int], offset: int
    ) -> None:
        """A record was delivered by a request that was sent when `asked_after` were accepted."""
        assert offset not in asked_after, f"offset {offset} was accepted, and delivered again"
        holder = self.holders.get(offset)
        assert holder is None or holder[0] == member_id or holder[1] != leader_epoch, (
            f"offset {offset} is delivered to {member_id}, and {holder[0]} holds it"
        )
        self.deliveries[offset] += 1
        self.holders[offset] = (member_id, leader_epoch)

    def let_go(self, member_id: str, offset: int) -> None:
        """A member holds a record no more, or does not know."""
        if self.holders.get(offset, ("", 0))[0] == member_id:
            del self.holders[offset]

    def accept(self, member_id: str, offset: int) -> None:
        """A member was told that its acceptance counts."""
        assert offset not in self.accepted, (
            f"offset {offset} was accepted by {self.accepted[offset]} and {member_id}"
        )
        self.accepted[offset] = member_id


class Member:
    """A member that moves from leader to leader."""

    def __init__(self, cluster: Cluster, topic_id: Uuid, notes: Notes | None = None) -> None:
        self.cluster = cluster
        self.topic_id = topic_id
        self.notes = notes or Notes()
        self.member_id = f"member-{next(_COUNT)}"
        self.connection_id = next(_COUNT)
        self.node = -1
        self.epoch = 0

    def _leader(self) -> tuple[int, int]:
        found = self.cluster.image.partition("t", 0)
        assert found is not None
        return found.leader, found.leader_epoch

    def reset(self) -> None:
        """The session is lost: other members have the records that this one held, or will get
        them."""
        self.epoch = 0
        self.connection_id = next(_COUNT)
        for offset, (member_id, _) in list(self.notes.holders.items()):
            if member_id == self.member_id:
                del self.notes.holders[offset]

    async def _ask(self, request: Any, version: int) -> Any | None:
        """The leader's answer, or None if there is no leader or it died."""
        node, _ = self._leader()
        if node != self.node:
            self.node = node
            self.reset()
            request.share_session_epoch = 0
        if node < 0 or self.cluster._members[node].broker is None:
            await trio.sleep(0.05)
            return None
        answer: list[Any] = []
        ended = self.cluster._members[node].ended
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                context = {"connection_id": self.connection_id}
                answer.append(await self.cluster.ask(node, request, version, **context))
                nursery.cancel_scope.cancel()

            async def die() -> None:
                await ended.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(ask)
            nursery.start_soon(die)
        if not answer:
            self.reset()
            return None
        if answer[0].error_code:
            self.reset()
            await trio.sleep(0.02)
        else:
            self.epoch += 1
        return answer[0]

    async def fetch(self, max_records: int = 5, wait_ms: int = 200) -> list[Seen]:
        """The records that were fetched; none if there are none or the fetch failed."""
        accepted = frozenset(self.notes.accepted)
        _, leader_epoch = self._leader()
        partition = fetching.FetchPartition(partition_index=0)
        request = fetching.ShareFetchRequest(
            group_id=GROUP_ID,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=1,
            topics=[fetching.FetchTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        answer = await self._ask(request, 2)
        found: list[Seen] = []
        markers: list[int] = []
        for topic in answer.responses if answer is not None else ():
            for data in topic.partitions:
                if data.error_code:
                    await trio.sleep(0.02)
                    continue
                counts = {
                    offset: one.delivery_count
                    for one in data.acquired_records
                    for offset in range(one.first_offset, one.last_offset + 1)
                }
                view = memoryview(bytes(data.records))
                for position, header in iter_headers(view):
                    if header.is_control:
                        markers += [offset for offset in counts if offset == header.base_offset]
                        continue
                    for record in records(view[position : position + header.size], header):
                        if record.offset in counts:
                            found.append(Seen(record.offset, record.value, counts[record.offset]))
        for offset in markers:
            await self.say(offset, AcknowledgeType.GAP)
        for seen in found:
            self.notes.delivered(self.member_id, leader_epoch, accepted, seen.offset)
        return found

    async def say(self, offset: int, kind: AcknowledgeType = ACCEPT) -> ErrorCode | None:
        """Acknowledge a record. Returns None if the outcome is unknown."""
        if self.epoch == 0 or self._leader()[0] != self.node:
            self.reset()
            return E.SHARE_SESSION_NOT_FOUND
        batch = acknowledging.AcknowledgementBatch(
            first_offset=offset, last_offset=offset, acknowledge_types=[kind]
        )
        partition = acknowledging.AcknowledgePartition(
            partition_index=0, acknowledgement_batches=[batch]
        )
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=GROUP_ID,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            topics=[acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        if kind is RELEASE:
            self.notes.let_go(self.member_id, offset)  # another may have it before we hear of it
        answer = await self._ask(request, 2)
        self.notes.let_go(self.member_id, offset)
        if answer is None:
            if kind is ACCEPT:
                self.notes.maybe.add(offset)
            return None
        code = answer.error_code or answer.responses[0].partitions[0].error_code
        if kind is ACCEPT and code == E.NONE:
            self.notes.accept(self.member_id, offset)
        elif kind is ACCEPT and code not in (E.INVALID_RECORD_STATE, E.SHARE_SESSION_NOT_FOUND):
            self.notes.maybe.add(offset)  # it was refused, but the write may have got through
        return ErrorCode(code)

    async def work(self, random: Random, until: trio.Event) -> None:
        """Take records; accept most of them, release some, forget some and begin again."""
        while not until.is_set():
            for seen in await self.fetch(random.randint(1, 8)):
                chance = random.random()
                if chance < 0.85:
                    await self.say(seen.offset)
                elif chance < 0.97:
                    await self.say(seen.offset, RELEASE)
                else:
                    await self.leave()
                    break

    async def leave(self) -> None:
        """End the connection: what we hold goes back to the group."""
        member = self.cluster._members.get(self.node)
        connection_id = self.connection_id
        self.reset()
        if member is not None and member.broker is not None:
            for hear in member.broker.disconnected:
                hear(connection_id)
