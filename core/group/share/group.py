"""One share group: the state in its records, and the state derived from it.

The *group epoch* counts the changes that require a new assignment: a member joined, left or changed
its subscription, a topic changed, or share partitions got a start offset. Only `replay_…` changes
the state here, except the time of the next check of the topics, which is soft state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import CheckPartition, Committer, GroupType
from pk.core.group.assignor import EMPTY_ASSIGNMENT, Assignment
from pk.core.group.modern_group import ModernGroup, RecordKeys
from pk.core.group.records import Record
from pk.core.group.share.member import ShareMember
from pk.core.group.share.records import StatePartitions, group_tombstones
from pk.core.values import Uuid
from pk.core.wire.messages import offsets_topic_share as wire


class ShareGroupState(StrEnum):
    """The states of a group, with the names that Kafka prints."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(ModernGroup[ShareMember, Assignment]):
    """A share group."""

    type: ClassVar[GroupType] = GroupType.SHARE
    KEYS = RecordKeys(
        wire.ShareGroupMetadataKey,
        wire.ShareGroupMemberMetadataKey,
        wire.ShareGroupCurrentMemberAssignmentKey,
        wire.ShareGroupTargetAssignmentMemberKey,
        wire.ShareGroupTargetAssignmentMetadataKey,
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topics: Counter[str] = Counter()
        """The number of members that are subscribed to each topic."""
        self.state_partitions = StatePartitions()

    # --- as a group of any type ---

    @property
    def state_name(self) -> str:
        """The state, named as in ListGroups."""
        return (ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY).value

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to `topic`."""
        return topic in self.topics

    def check_commit(self, committer: Committer) -> CheckPartition | None:
        """Raise GROUP_ID_NOT_FOUND: a share group has no committed offsets."""
        raise self._no_consumer_group()

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow it: there are no offsets to fetch, but the request is valid."""

    def check_offset_delete(self) -> None:
        """Raise GROUP_ID_NOT_FOUND: a share group has no committed offsets."""
        raise self._no_consumer_group()

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """Return None: a share group has no committed offsets."""
        return None

    def tombstones(self) -> list[Record]:
        """Return the records that delete the group."""
        return group_tombstones(self.group_id)

    def _no_consumer_group(self) -> KafkaError:
        return KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group."
        )

    # --- members ---

    def target_of(self, member_id: str) -> Assignment:
        """Return a member's partitions in the target assignment."""
        return self.target.get(member_id, EMPTY_ASSIGNMENT)

    def subscriptions(
        self, old: ShareMember | None = None, new: ShareMember | None = None
    ) -> set[str]:
        """Return the topics of the group with member `new` in place of `old`."""
        topics = Counter(self.topics)
        if old is not None:
            topics.subtract(old.topics)
        if new is not None:
            topics.update(new.topics)
        return {topic for topic, count in topics.items() if count > 0}

    @property
    def lacks_assignment(self) -> bool:
        """Whether an initialized share partition has no member, or an assigned one is not
        initialized."""
        assigned: dict[Uuid, set[int]] = {}
        for assignment in self.target.values():
            for topic_id, partitions in assignment.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return bool(self.members) and any(
            frozenset(assigned.get(topic_id, ())) != found.partitions
            for topic_id, found in self.state_partitions.initialized.items()
            if found.name in self.topics
        )

    # --- the log ---

    def replay_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Set the group epoch."""
        self.epoch, self.metadata_hash = epoch, metadata_hash

    def replay_member(self, member_id: str, fields: Mapping[str, Any]) -> None:
        """Set some fields of a member."""
        old = self.members.get(member_id)
        new = replace(ShareMember(member_id) if old is None else old, **fields)
        self._count(old, -1)
        self.members[member_id] = new
        self._count(new, 1)

    def replay_assignment_tombstone(self, member_id: str) -> None:
        """Clear the assignment of a member that leaves."""
        if member_id in self.members:
            self.replay_member(
                member_id, {"member_epoch": -1, "previous_epoch": -1, "assigned": {}}
            )

    def replay_member_tombstone(self, member_id: str) -> None:
        """Remove a member."""
        self._count(self.members.pop(member_id, None), -1)
        self.target.pop(member_id, None)

    def replay_state_partitions(self, state: StatePartitions) -> None:
        """Set the share partitions that exist."""
        self.state_partitions = state

    def replay_tombstone(self, key: Any) -> None:
        """See `ModernGroup`."""
        if isinstance(key, wire.ShareGroupStatePartitionMetadataKey):
            self.replay_state_partitions(StatePartitions())
        else:
            super().replay_tombstone(key)

    def _count(self, member: ShareMember | None, by: int) -> None:
        if member is not None:
            for topic in member.topics:
                self.topics[topic] += by
                if not self.topics[topic]:
                    del self.topics[topic]
