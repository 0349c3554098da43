"""Code shared by consumer, share and streams groups: their configs, which override the broker's;
the limit of members; and target assignments, which are computed one at a time for each group, large
ones off the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.modern_group import ModernGroup
from pk.core.group.records import Record
from pk.core.group.registry import Groups
from pk.core.group.settings import DecisionBuilder, ModernGroupSettings
from pk.core.group.topics import Topics
from pk.core.machine import Compute
from pk.core.meta.events import GROUP
from pk.core.meta.image import MetadataImage
from pk.core.wire.schema import Message

NEVER_MS: Final = (1 << 31) - 1
"""How long a check of a group's topics is valid unless one of them changes, as in Kafka."""

G = TypeVar("G", bound=ModernGroup[Any, Any])
S = TypeVar("S", bound=ModernGroupSettings)


class TargetRecords(Protocol):
    """The module with the records of a target assignment. Each type of group has one."""

    def target_member(self, group_id: str, member_id: str, assignment: Any, /) -> Record:
        """The record of a member's target assignment."""
        ...

    def target_epoch(self, group_id: str, epoch: int, timestamp_ms: int, /) -> Record:
        """The record that completes the target assignment of `epoch`."""
        ...


class ModernGroups(Generic[G, S]):
    """The groups of one type in one partition of `__consumer_offsets`."""

    def __init__(
        self,
        group_type: type[G],
        broker_settings: S,
        groups: Groups,
        topics: Topics,
        records: TargetRecords,
    ) -> None:
        """Create the groups of one type. `broker_settings` come from the broker's file. `groups`
        are the partition's groups of all types. `topics` are the cluster's; their owner keeps them
        up to date."""
        self.groups = groups
        self.topics = topics
        self._group_type = group_type
        self._of_broker = broker_settings
        """The settings in the broker's file."""
        self._broker_settings = broker_settings
        """The settings of the broker, overridden by the cluster's configs for all brokers."""
        self._records = records
        self._computing: set[str] = set()
        """Soft: groups for which a computation is running off the loop."""

    def settings_of(self, group_id: str) -> S:
        """Return the settings of a group: its configs override the broker's."""
        return self._broker_settings.of_group(self.topics.image.config(GROUP, group_id))

    def use_cluster_settings(self, image: MetadataImage) -> None:
        """Apply the cluster's configs, which may have changed."""
        self._broker_settings = self._of_broker.of_cluster(image.broker_configs(None))

    def check_room(self, group: G, member_id: str = "") -> None:
        """Raise GROUP_MAX_SIZE_REACHED if the group has no room for another member. A `member_id`
        that is already in the group needs no room."""
        size_max = self._of_broker.max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self._of_broker.KIND} group has reached its maximum capacity of {size_max} "
                "members.",
            )

    # --- the log ---

    def replay(self, record: Record) -> None:
        """See `GroupsOfType`. The first record of a group creates it."""
        key: Any
        key, value = record
        group_id: str = key.group_id
        group = self.groups.get_of(self._group_type, group_id)
        if group is None:
            if value is None:
                # The record belongs to a group that was deleted, or that now has another type.
                return
            group = self._group_type(group_id)
            self.groups.put(group)
        if value is not None:
            self.replay_value(group, key, value)
        elif isinstance(key, group.KEYS.group):
            del self.groups[group_id]
        else:
            group.replay_tombstone(key)

    def replay_value(self, group: G, key: Message, value: Message) -> None:
        """Apply a record of `group` that is not a tombstone."""
        raise NotImplementedError

    # --- the target assignment ---

    def target_is_due(self, group: G, epoch: int, now_ms: int) -> bool:
        """Whether the target assignment of `epoch` must be computed now: it is missing and not
        being computed, and the last one is old enough."""
        if group.assignment_epoch >= epoch or group.group_id in self._computing:
            return False
        return not self.keeps_interval(group, now_ms)

    def keeps_interval(self, group: G, now_ms: int) -> bool:
        """Whether the interval since the last target assignment is too short for another."""
        interval_ms = self.settings_of(group.group_id).assignment_interval_ms
        return bool(group.assigned_at_ms) and now_ms < group.assigned_at_ms + interval_ms

    def target_records(
        self, group: G, assignments: Mapping[str, Any], epoch: int, now_ms: int
    ) -> list[Record]:
        """Return the records that make `assignments` the target assignment of `epoch`: the members
        that changed, and the epoch."""
        changed = [
            self._records.target_member(group.group_id, member_id, assignment)
            for member_id, assignment in assignments.items()
            if group.target.get(member_id) != assignment
        ]
        return [*changed, self._records.target_epoch(group.group_id, epoch, now_ms)]

    def compute(self, group_id: str, decision: DecisionBuilder, effect: Compute) -> None:
        """Run a computation for a group off the loop. There must be no other one for the group."""
        self._computing.add(group_id)
        decision.revert = lambda: self._computing.discard(group_id)
        decision.effects.append(effect)
