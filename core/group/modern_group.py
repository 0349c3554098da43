"""The part of a group that consumer, share and streams groups have in common: members, epochs, the
target assignment, and their records.

The *group epoch* counts the changes that require a new target assignment. The target assignment has
the epoch for which it was computed, and each member the epoch of the target that it follows. Only
the `replay_…` methods change them. The time of the next check of the topics is soft state: a new
coordinator checks at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import AnyGroup
from pk.core.wire.schema import Message

FIRST_EPOCH: Final = 1
"""The epoch of a group without records, and of its empty target assignment."""

Member = TypeVar("Member")
Target = TypeVar("Target")


class RecordKeys(NamedTuple):
    """The types of keys that the records of these types of groups have in common."""

    group: type[Message]
    """The group's epoch. Its tombstone deletes the group."""
    member: type[Message]
    """A member's own description."""
    current_assignment: type[Message]
    """A member's epoch and current assignment."""
    target_assignment: type[Message]
    """A member's target assignment."""
    target_epoch: type[Message]


class ModernGroup(AnyGroup, Generic[Member, Target]):
    """A group with epochs and a target assignment."""

    KEYS: ClassVar[RecordKeys]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """The hash of the topics for which the epoch was decided."""
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        """The time of the last target assignment, or 0 for none."""
        self.members: dict[str, Member] = {}
        self.target: dict[str, Target] = {}
        """The target assignment of each member."""
        self._refresh_at_ms = 0
        self._refresh_epoch = 0

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def protocol_type_name(self) -> str:
        """The protocol type, named as in ListGroups."""
        return self.type.value

    def member(self, member_id: str) -> Member:
        """Return the member. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    # The topics

    def must_refresh(self, now_ms: int) -> bool:
        """Whether the topics must be checked again."""
        return now_ms >= self._refresh_at_ms or self.epoch < self._refresh_epoch

    def refreshed(self, at_ms: int, epoch: int) -> None:
        """Note that the topics were checked for the group epoch `epoch`. They are checked again at
        `at_ms`."""
        self._refresh_at_ms, self._refresh_epoch = at_ms, epoch

    def request_refresh(self) -> None:
        """Check the topics at the next heartbeat, because one of them changed."""
        self._refresh_at_ms, self._refresh_epoch = 0, 0

    # The log

    def replay_member(self, member_id: str, fields: Mapping[str, Any]) -> None:
        """Set some fields of a member."""
        raise NotImplementedError

    def replay_assignment_tombstone(self, member_id: str) -> None:
        """Clear the assignment of a member that leaves."""
        raise NotImplementedError

    def replay_member_tombstone(self, member_id: str) -> None:
        """Remove a member."""
        raise NotImplementedError

    def replay_target(self, member_id: str, target: Target | None) -> None:
        """Set a member's target, or, given None, remove the member from the target assignment."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Note that the target assignment of `epoch` is complete."""
        self.assignment_epoch, self.assigned_at_ms = epoch, timestamp_ms

    def replay_tombstone(self, key: Any) -> None:
        """Apply the tombstone of one of the group's records, other than that of its epoch, which
        deletes the group."""
        kind: type[Message] = key.__class__
        keys = self.KEYS
        if kind is keys.member:
            self.replay_member_tombstone(key.member_id)
        elif kind is keys.current_assignment:
            self.replay_assignment_tombstone(key.member_id)
        elif kind is keys.target_assignment:
            self.replay_target(key.member_id, None)
        else:
            assert kind is keys.target_epoch, key
            self.replay_target_epoch(-1, 0)
