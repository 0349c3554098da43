"""Code shared by consumer, share and streams groups: their own configs, which override the
broker's; the limit of members; and target assignments, computed one at a time, large ones off the
loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.consumer.target import Topics
from pk.core.group.records import Record
from pk.core.group.registry import Groups
from pk.core.group.settings import GroupSettings, ModernGroupSettings, Step
from pk.core.machine import Compute
from pk.core.meta.events import GROUP
from pk.core.meta.image import MetadataImage

NEVER_MS: Final = (1 << 31) - 1
"""How long the topics of a group are good unless one changes. Kafka's."""

S = TypeVar("S", bound=ModernGroupSettings)


class ModernGroup(Protocol):
    """The parts of a group that this code needs."""

    group_id: str
    assignment_epoch: int
    assigned_at_ms: int

    @property
    def members(self) -> Mapping[str, Any]:
        """The members by id."""
        ...

    @property
    def target(self) -> Mapping[str, Any]:
        """The target assignment of each member."""
        ...


class TargetRecords(Protocol):
    """The records of a target assignment; each type of group has a module of them."""

    def target_member(self, group_id: str, member_id: str, assignment: Any, /) -> Record:
        """The record of a member's target assignment."""
        ...

    def target_epoch(self, group_id: str, epoch: int, timestamp_ms: int, /) -> Record:
        """The target assignment of `epoch` is complete."""
        ...


class ModernGroups(Generic[S]):
    """The groups of one type in one partition."""

    def __init__(
        self,
        settings: GroupSettings,
        broker_settings: S,
        groups: Groups,
        topics: Topics,
        records: TargetRecords,
    ) -> None:
        """`broker_settings` are those of `settings` for this type. `topics` are the cluster's;
        their owner keeps them up to date."""
        self.settings = settings
        self.groups = groups
        self.topics = topics
        self._of_broker = broker_settings
        """The settings in the broker's own file."""
        self._broker_settings = broker_settings
        """Under what the cluster says for all brokers."""
        self._records = records
        self._computing: set[str] = set()
        """Soft: groups for which something is being worked out off the loop."""

    def settings_of(self, group_id: str) -> S:
        """The group's own configs over the broker's."""
        return self._broker_settings.of_group(self.topics.image.config(GROUP, group_id))

    def use_cluster_settings(self, image: MetadataImage) -> None:
        """The cluster's configs may have changed."""
        self._broker_settings = self._of_broker.of_cluster(image.broker_configs(None))

    def check_room(self, group: ModernGroup, member_id: str = "") -> None:
        """Raise GROUP_MAX_SIZE_REACHED if another member would be too many. `member_id` is none
        more if it is in the group."""
        size_max = self._of_broker.max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self._of_broker.KIND} group has reached its maximum capacity of {size_max} "
                "members.",
            )

    # --- the target assignment ---

    def target_is_due(self, group: ModernGroup, epoch: int, now_ms: int) -> bool:
        """Whether the target assignment of `epoch` must be made now: it is missing and not being
        made, and the last one is old enough."""
        if group.assignment_epoch >= epoch or group.group_id in self._computing:
            return False
        return not self.keeps_interval(group, now_ms)

    def keeps_interval(self, group: ModernGroup, now_ms: int) -> bool:
        """Whether the last target assignment is too young for another."""
        interval_ms = self.settings_of(group.group_id).assignment_interval_ms
        return bool(group.assigned_at_ms) and now_ms < group.assigned_at_ms + interval_ms

    def target_records(
        self, group: ModernGroup, given: Mapping[str, Any], epoch: int, now_ms: int
    ) -> list[Record]:
        """The records that make `given` the target assignment of `epoch`: what changed, and the
        epoch."""
        changed = [
            self._records.target_member(group.group_id, member_id, assignment)
            for member_id, assignment in given.items()
            if group.target.get(member_id) != assignment
        ]
        return [*changed, self._records.target_epoch(group.group_id, epoch, now_ms)]

    def compute(self, group_id: str, step: Step, effect: Compute) -> None:
        """Have something worked out off the loop for a group, for which nothing is now."""
        self._computing.add(group_id)
        step.take_back = lambda: self._computing.discard(group_id)
        step.effects.append(effect)
