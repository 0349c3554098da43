"""One group of the classic protocol: its states, its members, and their waiting requests.

A group has durable and soft state. The durable state is the last GroupMetadataValue that was
written, `committed`, from which a new coordinator starts. Everything else is soft state: it begins
as a copy of `committed` when a partition is loaded, and is ahead of it during a rebalance (the
members that have joined, the next generation, the members that wait for an assignment). If the
coordinator moves during a rebalance, the soft state is lost and the members join again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import StrEnum
from typing import ClassVar, Final

from msgspec import Struct, field

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.group.any_group import CheckPartition, Committer, GroupType
from pk.core.group.java import hash_map_order
from pk.core.group.join import Join
from pk.core.group.records import Record, group_metadata, group_tombstone
from pk.core.values import NO_TIMESTAMP
from pk.core.wire.codec import decode
from pk.core.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from pk.core.wire.messages.join_group import JoinGroupResponseMember
from pk.core.wire.messages.offsets_topic import GroupMetadataValue, MemberMetadata

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

Token = Hashable


class State(StrEnum):
    """The states of a group, with the names that Kafka prints."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset({State.DEAD}),
}
"""The states that may follow each state."""


class Member(Struct, eq=False):
    """A member of a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: list[tuple[str, bytes]]
    """The protocols that the member supports, the preferred one first, each with its metadata (a
    consumer's subscription)."""
    assignment: bytes = b""
    join_token: Token | None = None
    sync_token: Token | None = None
    is_new: bool = False
    """Whether the member has never got a response, and so has no id for heartbeats."""

    @property
    def is_static(self) -> bool:
        """Whether the member has an instance id, with which it can return after a restart
        (KIP-345)."""
        return self.instance_id is not None

    @property
    def awaits_join(self) -> bool:
        """Whether a JoinGroup of the member is waiting."""
        return self.join_token is not None

    @property
    def heartbeat_is_due(self) -> bool:
        """Whether a member without heartbeats counts as failed. It does not while one of its
        requests waits here, unless it is new."""
        return self.is_new or (self.join_token is None and self.sync_token is None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for `protocol`. Raises KeyError if it does not support
        it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: Iterable[str]) -> str:
        """Return the candidate that the member prefers."""
        wanted = set(candidates)
        return next(name for name, _ in self.protocols if name in wanted)


class ClassicGroup(Struct, eq=False):
    """A group of the classic protocol."""

    type: ClassVar[GroupType] = GroupType.CLASSIC

    group_id: str
    state: State = State.EMPTY
    previous_state: State = State.DEAD
    state_timestamp_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    """The protocol type. None if no member ever joined and offsets were only committed (a "simple"
    consumer)."""
    protocol: str | None = None
    leader: str | None = None
    committed: GroupMetadataValue | None = None
    """The durable state: the last record of the group in the log."""
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    static_members: dict[str, str] = field(default_factory=dict[str, str])
    """The member id of each instance id."""
    pending_join: set[str] = field(default_factory=set[str])
    """Member ids that were returned with MEMBER_ID_REQUIRED and have not joined yet."""
    pending_sync: set[str] = field(default_factory=set[str])
    """Members that have learned the generation and have not sent SyncGroup."""
    joining: int = 0
    """The number of waiting JoinGroups."""
    supported: dict[str, int] = field(default_factory=dict[str, int])
    """The number of members that support each protocol."""
    new_member_added: bool = False
    """Whether a member joined during the delay of an initial rebalance, which may extend the
    delay."""
    initial_delay_ms: int = 0
    initial_remaining_ms: int = 0
    subscribed_topics: frozenset[str] | None = None
    """The topics to which members are subscribed, or None if unknown."""

    # Methods of every group type

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return self.state is State.EMPTY

    @property
    def state_name(self) -> str:
        """The state, named as in ListGroups."""
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        """The protocol type, named as in ListGroups."""
        return self.protocol_type or ""

    def check_commit(self, committer: Committer) -> CheckPartition | None:
        """See `AnyGroup`. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        REBALANCE_IN_PROGRESS."""
        member_id, instance_id, generation, _, transactional = committer
        if generation < 0 and self.state is State.EMPTY:
            return None
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional:
            # The commit comes from outside the group, although the group has members.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is State.COMPLETING_REBALANCE and not transactional:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow it: every client may read a classic group's offsets."""

    def check_offset_delete(self) -> None:
        """See `AnyGroup`. Raises NON_EMPTY_GROUP."""
        if self.state is not State.EMPTY and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """Return the time from which retention counts: when the group became empty, or the commit's
        time if it never had members or consists of consumers whose topics are known."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is State.EMPTY:
            since_ms = self.state_timestamp_ms
            return commit_timestamp_ms if since_ms == NO_TIMESTAMP else since_ms
        if self.state is not State.STABLE or self.subscribed_topics is None:
            return None
        return commit_timestamp_ms

    def tombstones(self) -> list[Record]:
        """Return the records that delete the group."""
        return [group_tombstone(self.group_id)]

    # Members

    def add(self, member: Member, token: Token | None) -> None:
        """Add `member`. Its JoinGroup, if any, waits with `token`."""
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        member.join_token = token
        if token is not None:
            self.joining += 1
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id. Its waiting requests must have been answered."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.awaits_join:
                self.joining -= 1
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(self, member: Member, join: Join, token: Token | None) -> Token | None:
        """Update a rejoining member with the fields of its request. The JoinGroup waits with
        `token`, if given. Returns the token of an older JoinGroup of the member that was still
        waiting."""
        self._count_protocols(member, -1)
        member.protocols = join.protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.session_timeout_ms = join.request.session_timeout_ms
        superseded = member.join_token
        self.joining += (token is not None) - (superseded is not None)
        member.join_token = token
        return superseded

    def replace_static(self, instance_id: str, new_member_id: str) -> tuple[Member, Member]:
        """Replace the member with `instance_id` by one with a new member id (KIP-345). Returns
        (old, new). The caller answers the old member's waiting requests."""
        old = self.members.pop(self.static_members[instance_id])
        if old.awaits_join:
            self.joining -= 1
        new = Member(
            new_member_id,
            instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        self.members[new_member_id] = new
        self.static_members[instance_id] = new_member_id
        if self.leader == old.member_id:
            self.leader = new_member_id
        return old, new

    def undo_replace_static(self, old: Member, new: Member) -> None:
        """Undo `replace_static`, because its record could not be written."""
        assert new.instance_id is not None
        self._count_protocols(new, -1)
        self._count_protocols(old, 1)
        self.members[old.member_id] = old
        del self.members[new.member_id]
        self.static_members[new.instance_id] = old.member_id
        if self.leader == new.member_id:
            self.leader = old.member_id

    def take_join_token(self, member: Member) -> Token | None:
        """Take the token of a waiting JoinGroup, which then no longer waits."""
        token, member.join_token = member.join_token, None
        if token is not None:
            self.joining -= 1
        return token

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """Return the member. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if the instance id now
        belongs to another member."""
        error = self.member_error(member_id, instance_id)
        if error is not None:
            raise KafkaError(error)
        return self.members[member_id]

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Return the error that `check_member` raises, or None. A request may name thousands of
        members, and raising an exception for each would take most of the time."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def all_joined(self) -> bool:
        """Whether every expected member has joined."""
        return len(self.members) == self.joining and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout among the members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader, unless the leader has joined. Returns False if
        no member has."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaits_join:
            return True
        for member in self.members.values():
            if member.awaits_join:
                self.leader = member.member_id
                return True
        return False

    # State

    def become(self, state: State, now_ms: int) -> None:
        """Enter `state`."""
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return State.PREPARING_REBALANCE in TRANSITIONS[self.state]

    def next_generation(self, now_ms: int) -> None:
        """Start the next generation, with the members that have joined, or without any."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()
        self.become(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)
        self.pending_sync.clear()

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a client of this type and with these protocols may join."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        members = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported.get(name, 0) == members for name in names
        )

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer, among those that all support.

        Kafka resolves ties by the order of a Java HashMap. So does pk, so that a group keeps its
        protocol when it moves between pk's brokers and Kafka's.
        """
        members = len(self.members)
        candidates = {name for name, count in self.supported.items() if count == members}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(hash_map_order(votes), key=votes.__getitem__)

    def _count_protocols(self, member: Member, by: int) -> None:
        for name in {name for name, _ in member.protocols}:  # A client may name a protocol twice.
            self.supported[name] = self.supported.get(name, 0) + by

    # Topics

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, whose metadata are subscriptions."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to `topic`. If subscriptions are unknown, any consumer may
        be."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        if self.members and self.protocol is None:
            return None
        for member in self.members.values():
            # After its version, every version of a subscription begins like version 0.
            try:
                subscription, _ = decode(
                    ConsumerProtocolSubscription, member.metadata(self.protocol), 0, 2
                )
            except ProtocolError:
                return None
            topics.update(subscription.topics)
        return frozenset(topics)

    # Durable state

    def record(self, assignments: Mapping[str, bytes]) -> Record:
        """Return the record that makes the generation durable, with these assignments."""
        members = [
            MemberMetadata(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout=m.rebalance_timeout_ms,
                session_timeout=m.session_timeout_ms,
                subscription=m.metadata(self.protocol),
                assignment=assignments.get(m.member_id, b""),
            )
            for m in self.members.values()
        ]
        return group_metadata(
            self.group_id,
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation,
                protocol=self.protocol,
                leader=self.leader,
                current_state_timestamp=self.state_timestamp_ms,
                members=members,
            ),
        )

    def replayed(self, value: GroupMetadataValue) -> None:
        """Apply a record of this group that this coordinator wrote. The assignments take effect
        now."""
        self.committed = value
        if self.state is State.COMPLETING_REBALANCE and value.generation == self.generation:
            for written in value.members:
                self.members[written.member_id].assignment = written.assignment
            self.become(State.STABLE, self.state_timestamp_ms)

    @classmethod
    def loaded(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Return the group that a record of the log describes, for a new coordinator."""
        group = cls(
            group_id,
            State.STABLE if value.members else State.EMPTY,
            state_timestamp_ms=value.current_state_timestamp,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol=value.protocol,
            committed=value,
        )
        for written in value.members:
            timeout_ms = written.rebalance_timeout
            group.add(
                Member(
                    written.member_id,
                    written.group_instance_id,
                    written.client_id,
                    written.client_host,
                    written.session_timeout if timeout_ms == -1 else timeout_ms,
                    written.session_timeout,
                    [(value.protocol or "", written.subscription)],
                    written.assignment,
                ),
                None,
            )
        group.leader = value.leader
        group.subscribed_topics = group._subscribed_topics()
        return group

    def response_members(self) -> list[JoinGroupResponseMember]:
        """Return the list of all members for the leader's response."""
        return [
            JoinGroupResponseMember(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                metadata=m.metadata(self.protocol),
            )
            for m in self.members.values()
        ]
