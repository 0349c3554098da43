"""The part of a group that consumer, share and streams groups have in common: members, epochs, the
target assignment, and the records of them.

The *group epoch* counts the changes after which the target assignment must be made again. The
target assignment has the epoch for which it was made, and each member the epoch of the target that
it follows. Only the `replay_…` methods change them. The time of the next check of the topics is
soft: a new coordinator checks at once.
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
    """The keys of the records that groups of each of these types have."""

    group: type[Message]
    """Its epoch; the tombstone ends the group."""
    member: type[Message]
    """The key of records with a member's own description."""
    current_assignment: type[Message]
    """The key of records with a member's epoch and current assignment."""
    target_assignment: type[Message]
    """The key of records with a member's target assignment."""
    target_epoch: type[Message]


class ModernGroup(AnyGroup, Generic[Member, Target]):
    """A group as its coordinator sees it."""

    KEYS: ClassVar[RecordKeys]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """The hash of the topics that the epoch was made for."""
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        """When the target assignment was made; 0 for never."""
        self.members: dict[str, Member] = {}
        self.target: dict[str, Target] = {}
        """The target assignment of each member."""
        self._refresh_at_ms = 0
        self._refresh_epoch = 0

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def protocol_type_name(self) -> str:
        """The name in ListGroups."""
        return self.type.value

    def member(self, member_id: str) -> Member:
        """The member. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    # The topics

    def must_refresh(self, now_ms: int) -> bool:
        """Whether the topics must be looked at again."""
        return now_ms >= self._refresh_at_ms or self.epoch < self._refresh_epoch

    def refreshed(self, at_ms: int, epoch: int) -> None:
        """The topics were looked at, and the group epoch becomes `epoch`: again at `at_ms`."""
        self._refresh_at_ms, self._refresh_epoch = at_ms, epoch

    def request_refresh(self) -> None:
        """A topic of the group changed."""
        self._refresh_at_ms, self._refresh_epoch = 0, 0

    # The log

    def replay_member(self, member_id: str, fields: Mapping[str, Any]) -> None:
        """A record of a member sets some of its fields."""
        raise NotImplementedError

    def replay_assignment_tombstone(self, member_id: str) -> None:
        """A member that leaves no longer holds partitions."""
        raise NotImplementedError

    def replay_member_tombstone(self, member_id: str) -> None:
        """A member is gone."""
        raise NotImplementedError

    def replay_target(self, member_id: str, target: Target | None) -> None:
        """Set a member's target. None: it is no longer part of the target assignment."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def replay_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """The target assignment of `epoch` is complete."""
        self.assignment_epoch, self.assigned_at_ms = epoch, timestamp_ms

    def replay_tombstone(self, key: Any) -> None:
        """A record of the group is gone. (The tombstone of its epoch ends the group itself.)"""
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
