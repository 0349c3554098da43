"""A group machine with its log, its clock and its clients, for scenarios told in milliseconds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import count
from typing import Any

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.classic.group import ClassicGroup
from pk.core.group.machine import GroupMachine
from pk.core.group.offsets import CommitRecords, commit_records
from pk.core.group.records import Record
from pk.core.group.settings import Client, GroupSettings
from pk.core.machine import Decision
from pk.core.meta.image import Changes, MetadataImage, TopicImage
from pk.core.wire.codec import encode
from pk.core.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pk.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pk.core.wire.messages.offset_fetch import OffsetFetchRequestGroup
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

START_MS = 1_000_000_000

NOTHING = "waits"
"""Stands in for the answer of a request that waits."""


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, as its client writes it."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def classic_of(machine: GroupMachine, group_id: str = "g") -> ClassicGroup:
    """A classic group that is there."""
    group = machine.groups.get_of(ClassicGroup, group_id)
    assert group is not None
    return group


class Scenario:
    """One machine and everything about it. Requests return their answer, or NOTHING and a later
    entry of `answers`."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.now_ms = START_MS
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=3000)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.refuse: ErrorCode | None = None
        """The error with which the next appends fail."""
        self._tokens = count(1)
        self._ids = count(1)
        self._start()
        self.take(self.machine.loaded(self.now_ms))

    def _start(self) -> None:
        self.timers: dict[Hashable, int] = {}
        self.answers: dict[Hashable, Any] = {}
        self.machine = GroupMachine(self.settings, lambda: f"id{next(self._ids)}")

    def restart(self) -> None:
        """The coordinator moves: a new machine reads the log."""
        self._start()
        for offset, (key, value) in enumerate(self.log):
            record = self.machine.decode(key, value)
            assert record is not None
            self.machine.replay(record, offset)
        self.take(self.machine.loaded(self.now_ms))

    # The runtime's part

    def take(self, decision: Decision[Record, Any]) -> Any:
        """Append, replay, set timers, answer, as the runtime would. Returns the reply."""
        refusal = self.refuse if decision.records else None
        for record in decision.records if refusal is None else ():
            encoded = self.machine.encode(record)
            assert self.machine.decode(*encoded) == record, "a record reads back as it was written"
            self.machine.replay(record, len(self.log))
            self.log.append(encoded)
        timers = decision.timers
        if refusal is not None and decision.revert is not None:
            decision.revert()
            timers = []
        for key, when_ms in timers:
            if when_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = when_ms
        for token, answer in decision.answers:
            assert token not in self.answers, "a request is answered once"
            self.answers[token] = answer if refusal is None else refusal
        return decision.reply if refusal is None else refusal

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        """The cluster has deleted a topic."""
        found = Changes(topics_deleted=[TopicImage(name, topic_id)])
        self.take(self.machine.follow(MetadataImage(), found, self.now_ms))

    def after(self, wait_ms: int) -> dict[Hashable, Any]:
        """Let time pass. Returns the answers given in that time, by token."""
        before = set(self.answers)
        end_ms = self.now_ms + wait_ms
        while self.timers:
            key, when_ms = min(self.timers.items(), key=lambda item: item[1])
            if when_ms > end_ms:
                break
            del self.timers[key]
            self.now_ms = max(self.now_ms, when_ms)
            self.take(self.machine.fire(key, self.now_ms))
        self.now_ms = end_ms
        return {token: answer for token, answer in self.answers.items() if token not in before}

    # Clients' requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 9,
        protocols: Iterable[tuple[str, bytes]] = (("range", subscription("t")),),
        instance_id: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        client_id: str = "c",
    ) -> Any:
        """JoinGroup: the answer, or the token under which it will come."""
        token = next(self._tokens)
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
        )
        self.take(
            self.machine.join(request, version, Client(client_id, "/1.2.3.4"), token, self.now_ms)
        )
        return self.answers.get(token, token)

    def join_new(self, **options: Any) -> tuple[str, Any]:
        """A new dynamic member, both steps of it: its id, and the answer or token."""
        required = self.join(**options)
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return required.member_id, self.join(required.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        version: int = 5,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
    ) -> Any:
        """SyncGroup: the answer, or the token under which it will come."""
        token = next(self._tokens)
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=a)
                for m, a in (assignments or {}).items()
            ],
        )
        refused = self.take(self.machine.sync(request, version, token, self.now_ms))
        return self.answers.get(token, refused or token)

    def heartbeat(
        self, member_id: str, generation: int, instance_id: str | None = None, group: str = "g"
    ) -> int:
        """Heartbeat: the error code."""
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        try:
            return self.take(self.machine.heartbeat(request, self.now_ms)).error_code
        except KafkaError as e:
            return e.code

    def leave(
        self, *members: str | tuple[str, str | None], group: str = "g", version: int = 5
    ) -> list[int]:
        """LeaveGroup of member ids, or of (member id, instance id): the error codes."""
        identities = [
            MemberIdentity(member_id=m)
            if isinstance(m, str)
            else MemberIdentity(member_id=m[0], group_instance_id=m[1])
            for m in members
        ]
        request = LeaveGroupRequest(group_id=group, members=identities)
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=identities[0].member_id)
        reply = self.take(self.machine.leave(request, version, self.now_ms))
        if isinstance(reply, ErrorCode):
            return [reply]
        return [m.error_code for m in reply.members] if version >= 3 else [reply.error_code]

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        version: int = 9,
        metadata: str | None = None,
        retention_ms: int = -1,
        topic_id: bytes = bytes(16),
    ) -> list[int] | int:
        """OffsetCommit: the partitions' error codes, or the code that the whole request failed
        with."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        try:
            reply = self.take(self.decide_commit(request, version))
        except KafkaError as e:
            return e.code
        if isinstance(reply, ErrorCode):
            return reply
        return [p.error_code for t in reply.topics for p in t.partitions]

    def decide_commit(self, request: OffsetCommitRequest, version: int) -> Decision[Record, Any]:
        """OffsetCommit: the decision."""
        made = CommitRecords(OffsetCommitResponse())
        metadata_max = self.machine.settings.offset_metadata_max_bytes
        for record in commit_records(request, metadata_max, self.now_ms, made.reply):
            made.add(record)
        return self.machine.commit(request, version, made, self.now_ms)

    def fetch(self, group: str = "g") -> dict[tuple[str, int], int]:
        """All offsets of a group."""
        request = OffsetFetchRequestGroup(group_id=group, topics=None)
        reply = self.take(self.machine.fetch(request, self.now_ms, require_stable=False))
        return {
            (t.name, p.partition_index): p.committed_offset
            for t in reply.topics
            for p in t.partitions
        }

    # Shortcuts

    @property
    def state(self) -> str:
        """The state of group `g`."""
        return classic_of(self.machine).state.value

    def stable(self, members: int = 2, **options: Any) -> list[str]:
        """A stable group of `members` new members; the first leads, and assigned each member its
        own number."""
        ids = [self.join_new(**options)[0] for _ in range(members)]
        self.after(self.settings.initial_rebalance_delay_ms * 2)
        group = classic_of(self.machine)
        assert group.state.value == "CompletingRebalance"
        for member_id in ids[1:]:
            self.sync(member_id, group.generation)
        self.sync(ids[0], group.generation, {m: str(i).encode() for i, m in enumerate(ids)})
        assert group.state.value == "Stable"
        return ids

    def rejoin(self, *member_ids: str, **options: Any) -> list[JoinGroupResponse]:
        """Members that join again: their answers."""
        tokens = [self.join(member_id, **options) for member_id in member_ids]
        return [self.answers.get(t, t) if isinstance(t, int) else t for t in tokens]
