"""One share group: the state in its records, and the state derived from it.

The *group epoch* counts the changes after which partitions must be assigned again: a member joined,
left or reads other topics, a topic changed, or share partitions got a start offset. Only `replay_…`
changes the state here, except the deadline of the next check of the topics, which is soft.
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
    """The states of a group; the values are those that Kafka prints."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(ModernGroup[ShareMember, Assignment]):
    """A group as its coordinator sees it."""

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
        """Topic → how many members name it."""
        self.state_partitions = StatePartitions()

    # --- as a group of any type ---

    @property
    def state_name(self) -> str:
        """The state's name in ListGroups."""
        return (ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY).value

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads `topic`."""
        return topic in self.topics

    def check_commit(self, committer: Committer) -> CheckPartition | None:
        """Raise GROUP_ID_NOT_FOUND: a share group has no committed offsets."""
        raise self._no_consumer_group()

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """There is nothing to fetch, and a request is not an error."""

    def check_offset_delete(self) -> None:
        """Raise GROUP_ID_NOT_FOUND."""
        raise self._no_consumer_group()

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """Never: it has no committed offsets."""
        return None

    def tombstones(self) -> list[Record]:
        """The records that end it."""
        return group_tombstones(self.group_id)

    def _no_consumer_group(self) -> KafkaError:
        return KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group."
        )

    # --- members ---

    def target_of(self, member_id: str) -> Assignment:
        """The partitions that the target assignment gives a member."""
        return self.target.get(member_id, EMPTY_ASSIGNMENT)

    def subscriptions(
        self, old: ShareMember | None = None, new: ShareMember | None = None
    ) -> set[str]:
        """The topics that the group would read with member `new` in place of `old`."""
        topics = Counter(self.topics)
        if old is not None:
            topics.subtract(old.topics)
        if new is not None:
            topics.update(new.topics)
        return {topic for topic, count in topics.items() if count > 0}

    @property
    def lacks_assignment(self) -> bool:
        """Whether share partitions that have a beginning have no member, or others still have
        one."""
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
        """The group has another epoch."""
        self.epoch, self.metadata_hash = epoch, metadata_hash

    def replay_member(self, member_id: str, fields: Mapping[str, Any]) -> None:
        """A record of a member sets some of its fields."""
        old = self.members.get(member_id)
        new = replace(ShareMember(member_id) if old is None else old, **fields)
        self._count(old, -1)
        self.members[member_id] = new
        self._count(new, 1)

    def replay_assignment_tombstone(self, member_id: str) -> None:
        """A member that leaves no longer has partitions."""
        if member_id in self.members:
            self.replay_member(
                member_id, {"member_epoch": -1, "previous_epoch": -1, "assigned": {}}
            )

    def replay_member_tombstone(self, member_id: str) -> None:
        """A member is gone."""
        self._count(self.members.pop(member_id, None), -1)
        self.target.pop(member_id, None)

    def replay_state_partitions(self, state: StatePartitions) -> None:
        """The share partitions that exist."""
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
