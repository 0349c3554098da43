"""One consumer group: the state in its records, and the state derived from it.

The *group epoch* counts the changes that require a new assignment: a member joined, left or changed
its subscription, or a topic changed. The *target assignment* is computed for an epoch, and each
member adopts it independently (member.py). Only `replay_…` changes this state; decisions read it,
and write changes as records. The time of the next check of the topics is soft state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import CheckPartition, Committer, GroupType
from pk.core.group.assignor import EMPTY_ASSIGNMENT, Assignment
from pk.core.group.consumer.member import LEAVE_EPOCH, ConsumerMember, MemberState
from pk.core.group.consumer.records import group_tombstones
from pk.core.group.java import hash_map_order
from pk.core.group.modern_group import ModernGroup, RecordKeys
from pk.core.group.records import Record
from pk.core.values import NO_EPOCH, Uuid
from pk.core.wire.messages import offsets_topic as wire

CONSUMER_COMMIT_SINCE: Final = 9
"""The first version of OffsetCommit that may contain a member epoch."""


class ConsumerGroupState(StrEnum):
    """The states of a group, with the names that Kafka prints."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target assignment is older than the group epoch."""
    RECONCILING = "Reconciling"
    """At least one member has not adopted all of its target."""
    STABLE = "Stable"
    DEAD = "Dead"


class Resolved(NamedTuple):
    """The topics that a regular expression matched."""

    topics: frozenset[str]
    version: int
    """The offset of the metadata image whose topics were matched."""
    timestamp_ms: int


class ConsumerGroup(ModernGroup[ConsumerMember, Assignment]):
    """A consumer group."""

    type: ClassVar[GroupType] = GroupType.CONSUMER
    KEYS = RecordKeys(
        wire.ConsumerGroupMetadataKey,
        wire.ConsumerGroupMemberMetadataKey,
        wire.ConsumerGroupCurrentMemberAssignmentKey,
        wire.ConsumerGroupTargetAssignmentMemberKey,
        wire.ConsumerGroupTargetAssignmentMetadataKey,
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        """The member id of each instance id."""
        self.resolved: dict[str, Resolved] = {}
        """The topics that each regular expression matched."""
        self.topics: Counter[str] = Counter()
        """The number of members that name each topic."""
        self.regexes: Counter[str] = Counter()
        """The number of members with each regular expression."""
        self.assignors: Counter[str] = Counter()
        """The number of members that request each server-side assignor."""
        self.classic_protocols: Counter[str] = Counter()
        """The number of members that support each classic protocol."""
        self.classic_members = 0
        """The number of members that use the classic protocol."""
        self.has_partition_metadata = False
        """Whether there is a record of brokers before 4.1 to delete."""
        self.joining: set[str] = set()
        """Soft: classic members that have been told to join again, and have a limited time for
        it."""
        self._holders: dict[Uuid, dict[int, str]] = {}
        """The member that holds each partition, by topic id."""

    # Methods of every group type

    @property
    def state(self) -> ConsumerGroupState:
        """The group's current state."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """The state, named as in ListGroups."""
        return self.state.value

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to `topic`."""
        return topic in self.topics or any(topic in r.topics for r in self.resolved.values())

    def reads_any(self, topics: set[str]) -> bool:
        """Whether a member is subscribed to one of `topics`."""
        return not topics.isdisjoint(self.topics) or any(
            not topics.isdisjoint(resolved.topics) for resolved in self.resolved.values()
        )

    def check_commit(self, committer: Committer) -> CheckPartition | None:
        """See `AnyGroup`. Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION; for
        members of the classic protocol ILLEGAL_GENERATION.

        An older epoch is accepted for a partition that the member has held since then (KIP-1251),
        so that a commit does not fail because the epoch has just risen.
        """
        if committer.epoch < 0 and not self.members:
            return None
        outside = committer.member_id == "" and committer.instance_id is None
        if committer.transactional and committer.epoch == NO_EPOCH and outside:
            return None
        member = self.member(committer.member_id)
        classic = member.classic is not None
        if not (committer.transactional or classic) and committer.version < CONSUMER_COMMIT_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer "
                "group protocol",
            )
        stale = ErrorCode.ILLEGAL_GENERATION if classic else ErrorCode.STALE_MEMBER_EPOCH
        if committer.epoch == member.member_epoch:
            return None
        if committer.epoch > member.member_epoch:
            what = "generation id" if classic else "member epoch"
            raise KafkaError(
                stale,
                f"Received {what} {committer.epoch} is newer than current member epoch "
                f"{member.member_epoch}.",
            )

        def check(topic: str, topic_id: Uuid, partition: int) -> None:
            held_since = member.epoch_of(topic_id, partition)
            if held_since is None or committer.epoch < held_since:
                raise KafkaError(stale, f"{topic}-{partition} was assigned later, or elsewhere")

        return check

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See `AnyGroup`. Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION."""
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch == member.member_epoch:
            return
        if member.classic is not None:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"The received generation id {member_epoch} does not match the expected member "
                f"epoch {member.member_epoch}.",
            )
        raise KafkaError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"The received member epoch {member_epoch} does not match the expected member epoch "
            f"{member.member_epoch}.",
        )

    def check_offset_delete(self) -> None:
        """Allow it: OffsetDelete itself refuses the topics that a member is subscribed to."""

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """Return the commit's time."""
        return commit_timestamp_ms

    def tombstones(self) -> list[Record]:
        """Return the records that delete the group."""
        return group_tombstones(self.group_id, list(self.members), self.resolved)

    # Members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that has `instance_id` now, or None."""
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_held(self, topic_id: Uuid, partition: int) -> bool:
        """Whether a member holds the partition."""
        return partition in self._holders.get(topic_id, ())

    def target_of(self, member: ConsumerMember) -> Assignment:
        """Return the member's partitions in the target assignment. A new member of an instance id
        gets those of the static member that it replaces."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.target.get(member_id, EMPTY_ASSIGNMENT)

    def subscriptions(
        self,
        old: Iterable[ConsumerMember] = (),
        new: Iterable[ConsumerMember] = (),
        resolved: Mapping[str, Resolved] | None = None,
    ) -> set[str]:
        """Return the topics of the group with members `new` in place of `old`. `resolved` are the
        topics that expressions match; None means as the group knows."""
        topics, regexes = Counter(self.topics), Counter(self.regexes)
        for member in old:
            topics.subtract(member.topics)
            if member.regex:
                regexes[member.regex] -= 1
        for member in new:
            topics.update(member.topics)
            if member.regex:
                regexes[member.regex] += 1
        read = {topic for topic, count in topics.items() if count > 0}
        for regex, matched in (self.resolved if resolved is None else resolved).items():
            if regexes[regex] > 0:
                read |= matched.topics
        return read

    def preferred_assignor(
        self, default: str, old: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str:
        """Return the assignor that most members request, with `new` in place of `old`."""
        counts = Counter(self.assignors)
        if old is not None and old.assignor is not None:
            counts[old.assignor] -= 1
        if new is not None and new.assignor is not None:
            counts[new.assignor] += 1
        named = hash_map_order([name for name, count in counts.items() if count > 0])
        return max(named, key=counts.__getitem__, default=default)

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a classic member that supports these protocols may join."""
        if protocol_type != "consumer":
            return False
        if not self.members:
            return any(True for _ in names)
        return any(self.classic_protocols[name] == self.classic_members for name in names)

    # The log

    def replay_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Set the group epoch."""
        self.epoch, self.metadata_hash = epoch, metadata_hash

    def replay_member(self, member_id: str, fields: Mapping[str, Any]) -> None:
        """Set some fields of a member."""
        old = self.members.get(member_id)
        new = replace(ConsumerMember(member_id) if old is None else old, **fields)
        self._release(old)
        if old is not None:
            self._count(old, -1)
        self.members[member_id] = new
        self._count(new, 1)
        if new.instance_id is not None:
            self.static_members[new.instance_id] = member_id
        for held in (new.assigned, new.revoking):
            for topic_id, partitions in held.items():
                self._holders.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def replay_assignment_tombstone(self, member_id: str) -> None:
        """Clear the assignment of a member that leaves."""
        if member_id in self.members:
            self.replay_member(
                member_id,
                {
                    "member_epoch": LEAVE_EPOCH,
                    "previous_epoch": LEAVE_EPOCH,
                    "assigned": {},
                    "revoking": {},
                    "state": MemberState.STABLE,
                },
            )

    def replay_member_tombstone(self, member_id: str) -> None:
        """Remove a member."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._release(old)
        self._count(old, -1)
        self.target.pop(member_id, None)
        self.joining.discard(member_id)
        if self.static_members.get(old.instance_id or "") == member_id:
            del self.static_members[old.instance_id or ""]

    def replay_regex(self, regex: str, resolved: Resolved | None) -> None:
        """Set the topics that an expression matched, or, given None, remove the expression, which
        no member has anymore."""
        if resolved is None:
            self.resolved.pop(regex, None)
        else:
            self.resolved[regex] = resolved

    def replay_tombstone(self, key: Any) -> None:
        """See `ModernGroup`."""
        if isinstance(key, wire.ConsumerGroupRegularExpressionKey):
            self.replay_regex(key.regular_expression, None)
        elif isinstance(key, wire.ConsumerGroupPartitionMetadataKey):
            self.has_partition_metadata = False
        else:
            super().replay_tombstone(key)

    def _release(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                holders = self._holders.get(topic_id, {})
                for partition in partitions:
                    if holders.get(partition) == member.member_id:
                        del holders[partition]
                if not holders:
                    self._holders.pop(topic_id, None)

    def _count(self, member: ConsumerMember, by: int) -> None:
        for topic in member.topics:
            _add(self.topics, topic, by)
        if member.regex:
            _add(self.regexes, member.regex, by)
        if member.assignor is not None:
            _add(self.assignors, member.assignor, by)
        if member.classic is not None:
            self.classic_members += by
            for name, _ in member.classic.protocols:
                _add(self.classic_protocols, name, by)


def topics_of(member: ConsumerMember, resolved: Mapping[str, Resolved]) -> frozenset[str]:
    """Return the topics that a member is subscribed to: those that it names, and those that its
    expression matched. An unresolved expression matches none."""
    matched = resolved.get(member.regex) if member.regex else None
    return member.topics if matched is None else member.topics | matched.topics


def _add(counts: Counter[str], key: str, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]
