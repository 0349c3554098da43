"""Members of a share group, and the checks on every record that they get (KIP-932).

A record is delivered until a member accepts or rejects it, or until its deliveries are used up.
While a member holds it, no other member gets it or may acknowledge it; once an acceptance is
confirmed, no member gets it again.

A leader that does not know yet that another one leads may deliver the records in its memory, and
this cannot be prevented. However, it cannot store anything. So a delivery is checked against the
state that was stored in the same leader epoch or before it, and two locks are compared only if both
were given in one epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from typing import Any, Final, NamedTuple

import trio
from sim.chronicle import Violation
from sim.clients import AGAIN, REQUEST_MS
from sim.consumer_groups import FENCED
from sim.groups import SESSION_MS, Group, Member, Rejoin
from sim.history import History
from sim.peers import SimChannel

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, error_name
from pk.core.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pk.core.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pk.core.wire.messages.share_fetch import (
    AcknowledgementBatch as FetchAcknowledgementBatch,
)
from pk.core.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from pk.core.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GROUP_STATE_TOPIC: Final = "__consumer_offsets"
SHARE_STATE_TOPIC: Final = "__share_group_state"
LOCK_MS: Final = 5_000
DELIVERIES: Final = 5

KEYS: Final = {
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.min.session.timeout.ms": str(SESSION_MS),
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": str(DELIVERIES),
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "3",
}
"""Configs of the brokers, so that locks and sessions end within a run."""

GROUP_CONFIGS: Final = {"share.auto.offset.reset": "earliest"}

JOINS: Final = 0
OPENS: Final = 0
WAIT_MS: Final = 400
ZOMBIE: Final = 0.05
"""How often a member stops while it holds records, for longer than its locks."""

NOT_HELD: Final = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""Errors of a leader that has not given the member these records. The second is the answer if the
leader has not reached them."""

LOST_SESSION: Final = frozenset(
    {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH}
)


class Say(IntEnum):
    """A member's answer for a record; the numbers are those of the protocol."""

    NOTHING = -1
    """It forgets the record, whose lock runs out."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


CHOICES: Final = (
    (Say.ACCEPT, Say.RELEASE, Say.REJECT, Say.RENEW, Say.NOTHING, None),
    (55, 12, 5, 6, 4, 18),
)
"""A member's answers for a record that it holds, None for no answer yet, and their weights."""


@dataclass(slots=True)
class Held:
    """One delivery of a record."""

    member: str
    epoch: int | None
    """The epoch of the leader that gave it; None if that is uncertain."""
    count: int
    got_s: float
    until_s: float
    """The lock lasts until then at least, while the member says nothing and its session lasts."""
    channel: SimChannel
    """The session lasts as long as the connection."""

    def lasts(self, epoch: int | None, now_s: float) -> bool:
        """Whether the lock is certainly in force with the leader of `epoch`."""
        return (
            epoch is not None
            and self.epoch == epoch
            and now_s < self.until_s
            and self.channel.open_at_both_ends
        )


class Stored(NamedTuple):
    """Something was stored of a record, and a member was told so."""

    at_s: float
    epoch: int
    """The epoch of the leader that stored it."""
    delivery: int
    """The number of the record's delivery."""


@dataclass(slots=True)
class RecordHistory:
    """The known facts about one record."""

    held: Held | None = None
    """The last delivery, unless its member has said something of it."""
    accepted: Stored | None = None
    released: Stored | None = None
    final: bool = False
    """Whether a member said accept or reject; no leader may have heard it."""
    handed: int = 0
    """The highest delivery count that a leader gave it."""


class Asked(NamedTuple):
    """When a request left, and which epoch its leader believed to lead in."""

    at_s: float
    epoch: int


@dataclass(slots=True)
class Deliveries:
    """The deliveries to the members of one group, and their answers. Only the history may use
    it."""

    group: Group
    history: History
    epoch_of: Callable[[int, str, int], int]
    """(node, topic, partition) → the epoch in which that broker considers itself the leader, or
    -1."""
    records: dict[tuple[int, int], RecordHistory] = field(default_factory=dict)
    """Records by (partition, offset)."""
    caught_up: dict[int, int] = field(default_factory=dict)
    """By partition: according to its coordinators, the group is done with the records before this
    offset."""

    @property
    def promised(self) -> bool:
        """Whether anything is promised after what befell the replicas."""
        topics = {self.group.topic, GROUP_STATE_TOPIC, SHARE_STATE_TOPIC}
        return not topics & self.history.unsafe

    def record(self, partition: int, offset: int) -> RecordHistory:
        """The known facts about one record."""
        found = self.records.get((partition, offset))
        if found is None:
            found = self.records[partition, offset] = RecordHistory()
        return found

    def asks(self, node: int, partition: int) -> Asked:
        """A request about a partition leaves for its leader."""
        return Asked(trio.current_time(), self.epoch_of(node, self.group.topic, partition))

    def handed(self, group_id: str, topic: str, partition: int, acquired: Iterable[Any]) -> None:
        """A leader gave records to somebody. The answer may be lost."""
        if (group_id, topic) == (self.group.name, self.group.topic):
            for one in acquired:
                for offset in range(one.first_offset, one.last_offset + 1):
                    record = self.record(partition, offset)
                    record.handed = max(record.handed, one.delivery_count)

    def delivered(self, partition: int, offset: int, asked: Asked, held: Held) -> None:
        """A member got a record."""
        if not self.promised:
            return
        record = self.record(partition, offset)
        where = f"{self.group.topic}-{partition} offset {offset}"
        if not 1 <= held.count <= DELIVERIES:
            self._fail("deliveries are counted", f"{where}: delivery {held.count} of {DELIVERIES}")
        done, released = record.accepted, record.released
        if done is not None and asked.at_s >= done.at_s and asked.epoch >= done.epoch:
            self._fail(
                "nothing accepted is delivered again",
                f"{where}: {held.member} gets it; it was accepted at {done.at_s:.3f}",
            )
        if (
            released is not None
            and asked.at_s >= released.at_s
            and asked.epoch >= released.epoch
            and held.count <= released.delivery
        ):
            self._fail(
                "deliveries are counted",
                f"{where}: delivery {held.count} after {released.delivery} was released",
            )
        other = record.held
        if other is None or held.epoch is None or other.epoch != held.epoch:
            record.held = held
            return
        if held.count == other.count:
            self._fail(
                "one member holds a record",
                f"{where}: {other.member} and {held.member} got delivery {held.count}",
            )
        if held.count > other.count:
            if other.lasts(held.epoch, trio.current_time()):
                self._fail(
                    "one member holds a record",
                    f"{where}: {held.member} gets it while {other.member} has it",
                )
            record.held = held

    def says(self, partition: int, offset: int, held: Held, kind: Say) -> None:
        """A member is about to say something of a record."""
        record = self.record(partition, offset)
        if record.held is held:
            record.held = None
        record.final |= kind in (Say.ACCEPT, Say.REJECT)

    def stored(self, partition: int, offset: int, asked: Asked, held: Held, kind: Say) -> None:
        """A member got the confirmation that its answer is stored. `asked` has the epoch in which
        the leader accepted it, -1 if that is uncertain."""
        if not self.promised:
            return
        now_s, record = trio.current_time(), self.record(partition, offset)
        other = record.held
        if (
            other is not None
            and other.count > held.count
            and other.got_s <= asked.at_s
            and held.epoch == asked.epoch
            and other.lasts(asked.epoch, now_s)
        ):
            self._fail(
                "only the member that holds a record acknowledges it",
                f"{self.group.topic}-{partition} offset {offset}: {held.member} says {kind.name} "
                f"while {other.member} has it",
            )
        if held.lasts(asked.epoch, now_s):
            told = Stored(now_s, asked.epoch, held.count)
            if kind is Say.ACCEPT:
                if record.accepted is not None:
                    self._fail(
                        "a record is accepted once",
                        f"{self.group.topic}-{partition} offset {offset}: by {held.member} now, "
                        f"and at {record.accepted.at_s:.3f}",
                    )
                record.accepted = told
            elif kind is Say.RELEASE:
                record.released = told
            elif kind is Say.RENEW:
                held.until_s = _lock_end(asked.at_s)
                if record.held is None:
                    record.held = held

    def refused(self, partition: int, asked: Asked, said: dict[int, Held], why: str) -> None:
        """A member may not acknowledge these records, it was told."""
        now_s = trio.current_time()
        if self.promised and all(held.lasts(asked.epoch, now_s) for held in said.values()):
            self._fail(
                "a member that holds a record may acknowledge it",
                f"{self.group.topic}-{partition} offsets {sorted(said)}: {why}",
            )

    def _fail(self, invariant: str, what: str) -> None:
        raise Violation(invariant, f"{self.group.name} {what}", self.group.topic)

    def unfinished(self, ends: dict[str, int], partitions: int) -> str:
        """A record that the group is not done with, or should not be done with; "" if there is
        none."""
        if not self.promised:
            return ""
        for partition in range(partitions):
            end = ends.get(f"{self.group.topic}-{partition}", 0)
            if (at := self.caught_up.get(partition, 0)) < end:
                return f"{self.group.name} is done with {at} of {end} in {partition}"
            for offset in range(end):
                record = self.record(partition, offset)
                if not record.final and record.handed < DELIVERIES:
                    return (
                        f"{self.group.name} is done with offset {offset} of {partition}, which "
                        f"no member accepted or rejected; it was delivered {record.handed} times"
                    )
        return ""


def _lock_end(asked_s: float) -> float:
    """When a lock ends at the earliest that was asked for at this time; brokers count in whole
    milliseconds."""
    return asked_s + (LOCK_MS - 2) / 1000


@dataclass(slots=True)
class Session:
    """A share session with one leader."""

    channel: SimChannel
    partitions: frozenset[int]
    epoch: int = OPENS


class ShareMember(Member):
    """One member. It accepts most records, and releases, rejects, renews or forgets others."""

    def __init__(self, *args: Any, deliveries: Deliveries, **more: Any) -> None:
        super().__init__(*args, **more)
        self.deliveries = deliveries
        self.assigned: frozenset[int] = frozenset()
        self._lives = 0
        self._sessions: dict[int, Session] = {}
        self._hands: dict[tuple[int, int], Held] = {}
        """The records that it holds, by (partition, offset)."""

    async def run(self) -> None:
        """Be a member for ever."""
        await self.places(self.group.topic, self.partitions)
        while True:
            try:
                await self._find()
                await self._join()
                while True:
                    await self._round()
                    await self._beat_if_due()
            except PeerLost:
                self.coordinator = -1
                await self.pause()
            except Rejoin:
                await self.pause()

    # --- membership ---

    async def _join(self) -> None:
        if not self.member_id:
            self._lives += 1
            self.member_id = f"{self.process.name}-life{self._lives}"
            self._sessions.clear()
            self._hands.clear()
        self.generation = JOINS
        while not await self._heartbeat():
            await self.pause()

    def _check(self, code: int) -> bool:
        if code in FENCED:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            raise Rejoin
        if code and not self.deliveries.promised:
            return False
        return super()._check(code)

    async def _beat(self) -> None:
        await self._heartbeat()
        if self.idle:
            await self._ask_lag()

    async def _heartbeat(self) -> bool:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=self.generation,
            subscribed_topic_names=[self.group.topic],
        )
        answer = await self.ask(self.coordinator, request)
        if not self._check(answer.error_code):
            return False
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = frozenset(
                p for t in answer.assignment.topic_partitions for p in t.partitions
            )
            self.note(f"epoch {self.generation} of {self.group.name}: {sorted(self.assigned)}")
        return True

    async def _ask_lag(self) -> None:
        """How far the group is, as its coordinators know it."""
        ends = {found.name: found.end for found in self.history.partitions.values()}
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=self.group.name, topics=None)
        answer = await self.ask(
            self.coordinator, DescribeShareGroupOffsetsRequest(groups=[asked]), 2 * REQUEST_MS
        )
        for topic in answer.groups[0].topics:
            for one in topic.partitions:
                if one.error_code == 0 and one.lag == 0:
                    end = ends.get(f"{topic.topic_name}-{one.partition_index}", 0)
                    self.deliveries.caught_up[one.partition_index] = end

    # --- records ---

    async def _round(self) -> None:
        """Fetch from every leader once, and say what became of the records."""
        if not self.assigned:
            await self.pause()
            return
        by_leader: dict[int, set[int]] = {}
        for partition in sorted(self.assigned):
            by_leader.setdefault(self.place(self.group.topic, partition).leader, set()).add(
                partition
            )
        good = True
        for leader, partitions in by_leader.items():
            session = self._sessions.get(leader)
            try:
                channel = await self.channel(leader)
                if (
                    session is None
                    or session.channel is not channel
                    or session.partitions != partitions
                ):
                    session = self._sessions[leader] = Session(channel, frozenset(partitions))
                    self._drop(partitions)
                good &= await self._fetch(leader, session)
                if not self.idle and self.random.random() < ZOMBIE:
                    await trio.sleep(self.random.random() * 2 * LOCK_MS / 1000)
                if self.random.random() < 0.7 and session.epoch != OPENS:
                    good &= await self._acknowledge(leader, session)
            except PeerLost:
                self._sessions.pop(leader, None)
                self._drop(partitions)
                good = False
        if not good:
            await self.pause()
            await self.refresh([self.group.topic])

    def _drop(self, partitions: Iterable[int]) -> None:
        """Whatever was held of these partitions is held no more."""
        for at in [at for at in self._hands if at[0] in partitions]:
            record = self.deliveries.record(*at)
            if record.held is self._hands.pop(at):
                record.held = None

    def _decide(self, partitions: frozenset[int]) -> dict[int, dict[int, tuple[Held, Say]]]:
        """The answers to send now: partition → offset → answer. Records that the member forgets
        have none."""
        said: dict[int, dict[int, tuple[Held, Say]]] = {}
        for at, held in list(self._hands.items()):
            if at[0] not in partitions:
                continue
            kind = Say.ACCEPT if self.idle else self.random.choices(*CHOICES)[0]
            if kind is None:
                continue
            if kind is Say.NOTHING:
                del self._hands[at]
                continue
            said.setdefault(at[0], {})[at[1]] = held, kind
            if kind is not Say.RENEW:
                del self._hands[at]
        return said

    async def _acknowledge(self, leader: int, session: Session) -> bool:
        """A ShareAcknowledge for all that is held; whether all went well."""
        said = self._decide(session.partitions)
        if not said:
            return True
        asked = self._says(leader, said)
        request = ShareAcknowledgeRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=_renews(said),
            topics=[
                AcknowledgeTopic(
                    topic_id=self._topic_id(),
                    partitions=[
                        AcknowledgePartition(
                            partition_index=p,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in _batches(of_partition)
                            ],
                        )
                        for p, of_partition in said.items()
                    ],
                )
            ],
        )
        answer = await session.channel.request(request, timeout_ms=2 * REQUEST_MS)
        if not self._took(leader, session, answer.error_code):
            return False
        good = True
        for topic in answer.responses:
            for one in topic.partitions:
                good &= self._heard(leader, one.partition_index, asked, said, one.error_code)
        return good

    async def _fetch(self, leader: int, session: Session) -> bool:
        """A ShareFetch, which may say something of earlier records; whether all went well."""
        random, said = self.random, {}
        if session.epoch != OPENS and random.random() < 0.4:
            said = self._decide(session.partitions)
        renews = _renews(said)
        saying = self._says(leader, said)
        request = ShareFetchRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=0 if renews else WAIT_MS,
            min_bytes=0 if renews else 1,
            max_bytes=0 if renews else 1 << 18,
            max_records=0 if renews else random.choice((1, 3, 10, 50)),
            batch_size=random.choice((1, 10)),
            share_acquire_mode=random.randrange(2),
            is_renew_ack=renews,
            topics=[
                FetchTopic(
                    topic_id=self._topic_id(),
                    partitions=[
                        FetchPartition(
                            partition_index=p,
                            acknowledgement_batches=[
                                FetchAcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in _batches(said.get(p, {}))
                            ],
                        )
                        for p in sorted(session.partitions)
                    ],
                )
            ],
        )
        asked = {p: self.deliveries.asks(leader, p) for p in session.partitions}
        answer = await session.channel.request(request, timeout_ms=2 * REQUEST_MS)
        if not self._took(leader, session, answer.error_code):
            return False
        good = True
        for topic in answer.responses:
            for one in topic.partitions:
                partition = one.partition_index
                if partition in said:
                    code = one.acknowledge_error_code
                    good &= self._heard(leader, partition, saying, said, code)
                good &= self._in_order(one.error_code, leader, partition)
                for acquired in one.acquired_records:
                    self._take(leader, session, partition, asked[partition], acquired)
        return good

    def _took(self, leader: int, session: Session, code: int) -> bool:
        """Whether a request of the session was taken."""
        if code in LOST_SESSION or (code and not self.deliveries.promised):
            self._sessions.pop(leader, None)
            self._drop(session.partitions)
            return False
        if code:
            raise Violation(
                "a share group goes on", f"{self.process}: {error_name(code)}", self.group.topic
            )
        session.epoch += 1
        return True

    def _in_order(self, code: int, leader: int, partition: int) -> bool:
        """Whether the answer of `leader` for a partition is right. Returns False if it may be tried
        again."""
        if code == ErrorCode.UNKNOWN_SERVER_ERROR and not self._leads(leader, partition):
            # It does not know yet that another leads, and may have asked a share coordinator that
            # does not know either.
            return False
        topic = self.history.metadata.image.topics.get(self.group.topic)
        if (
            code == ErrorCode.CORRUPT_MESSAGE
            and topic is not None
            and (topic.topic_id, partition) in self.history.unreadable
        ):
            return False  # until another replica leads
        if code and code not in AGAIN and self.deliveries.promised:
            raise Violation(
                "a share group goes on", f"{self.process}: {error_name(code)}", self.group.topic
            )
        return not code

    def _leads(self, node_id: int, partition: int) -> bool:
        found = self.history.metadata.image.partition(self.group.topic, partition)
        return found is not None and found.leader == node_id

    def _take(
        self, leader: int, session: Session, partition: int, asked: Asked, acquired: Any
    ) -> None:
        """Take the acquired records."""
        now_s = trio.current_time()
        epoch = self.deliveries.epoch_of(leader, self.group.topic, partition)
        for offset in range(acquired.first_offset, acquired.last_offset + 1):
            held = Held(
                self.member_id,
                epoch if epoch >= 0 and epoch == asked.epoch else None,
                acquired.delivery_count,
                now_s,
                _lock_end(asked.at_s),
                session.channel,
            )
            self.deliveries.delivered(partition, offset, asked, held)
            self._hands[partition, offset] = held

    def _says(self, leader: int, said: dict[int, dict[int, tuple[Held, Say]]]) -> dict[int, Asked]:
        for partition, of_partition in said.items():
            for offset, (held, kind) in of_partition.items():
                self.deliveries.says(partition, offset, held, kind)
        return {partition: self.deliveries.asks(leader, partition) for partition in said}

    def _heard(
        self,
        leader: int,
        partition: int,
        asked: dict[int, Asked],
        said: dict[int, dict[int, tuple[Held, Say]]],
        code: int,
    ) -> bool:
        """Handle the result of one partition's acknowledgements. Returns whether they were
        accepted."""
        at_s, before = asked[partition]
        after = self.deliveries.epoch_of(leader, self.group.topic, partition)
        whole = Asked(at_s, before if before == after else -1)
        of_partition = said[partition]
        if code == 0:
            # One that does not lead any more took it before it heard of that: else it would have
            # refused it.
            taken = Asked(at_s, before) if after < 0 else whole
            for offset, (held, kind) in of_partition.items():
                self.deliveries.stored(partition, offset, taken, held, kind)
            return True
        if code in NOT_HELD:
            holds = {offset: held for offset, (held, _) in of_partition.items()}
            self.deliveries.refused(partition, whole, holds, error_name(code))
            return True
        return self._in_order(code, leader, partition)


def _renews(said: dict[int, dict[int, tuple[Held, Say]]]) -> bool:
    return any(
        kind is Say.RENEW for of_partition in said.values() for _, kind in of_partition.values()
    )


def _batches(said: dict[int, tuple[Held, Say]]) -> list[tuple[int, int, list[int]]]:
    """(first, last, types) of each run of offsets without a gap."""
    batches: list[tuple[int, int, list[int]]] = []
    for _, run in groupby(enumerate(sorted(said)), lambda pair: pair[1] - pair[0]):
        offsets = [offset for _, offset in run]
        batches.append((offsets[0], offsets[-1], [said[offset][1] for offset in offsets]))
    return batches
