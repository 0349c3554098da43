"""All groups of one partition of `__consumer_offsets`, of any type: a name belongs to one group.

What every group is asked, whatever it is (to be listed, to have offsets committed, fetched, deleted
or expired, to be deleted), is `AnyGroup`; what only one type knows is in that type's own files.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeGuard

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import Uuid

if TYPE_CHECKING:
    from pk.core.group.classic_group import Group
    from pk.core.group.consumer.group import ConsumerGroup
    from pk.core.group.records import Record


class GroupType(StrEnum):
    """The types of groups, as ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Committer(NamedTuple):
    """Who commits offsets, as its request says."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The generation, or the member epoch; -1 from outside of the group."""
    version: int
    """Of OffsetCommit."""
    transactional: bool = False
    """Whether a transaction commits them (TxnOffsetCommit)."""


CheckPartition = Callable[[str, Uuid, int], None]
"""Takes topic, topic id and partition; raises the KafkaError with which a commit that names the
partition is refused as a whole."""


class AnyGroup(Protocol):
    """What every group can be asked."""

    group_id: str
    type: ClassVar[GroupType]

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    @property
    def state_name(self) -> str:
        """Its state, as ListGroups names it."""
        ...

    @property
    def protocol_type_name(self) -> str:
        """Its protocol type, as ListGroups names it."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads `topic`, or may."""
        ...

    def check_commit(self, committer: Committer) -> CheckPartition | None:
        """Raises the KafkaError with which a commit is refused as a whole. Returns what checks each
        partition, None where nothing is left to check."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises the KafkaError with which an OffsetFetch is refused."""
        ...

    def check_offset_delete(self) -> None:
        """Raises the KafkaError with which an OffsetDelete is refused."""
        ...

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """Since when an offset of that commit grows old; None while it does not."""
        ...

    def tombstones(self) -> list[Record]:
        """The records that end an empty group."""
        ...


class Groups(dict[str, AnyGroup]):
    """The groups by name."""

    def find(self, group_id: str) -> AnyGroup:
        """The group of any type. Raises GROUP_ID_NOT_FOUND."""
        group = self.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def classic(self, group_id: str) -> Group | None:
        """The group, if it is a classic one."""
        group = self.get(group_id)
        return group if is_classic(group) else None

    def find_classic(self, group_id: str) -> Group:
        """The classic group. Raises GROUP_ID_NOT_FOUND."""
        group = self.classic(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def all_classic(self) -> list[Group]:
        """Every classic group."""
        return [group for group in self.values() if is_classic(group)]

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group, if it is a consumer group."""
        group = self.get(group_id)
        return group if is_consumer(group) else None

    def all_consumer(self) -> list[ConsumerGroup]:
        """Every consumer group."""
        return [group for group in self.values() if is_consumer(group)]

    def put(self, group: AnyGroup) -> None:
        """Keep `group`, in place of one of the same name."""
        self[group.group_id] = group


def not_found(group_id: str) -> KafkaError:
    """There is no such group."""
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def is_classic(group: AnyGroup | None) -> TypeGuard[Group]:
    """Whether it is a group of the classic protocol."""
    return group is not None and group.type is GroupType.CLASSIC


def is_consumer(group: AnyGroup | None) -> TypeGuard[ConsumerGroup]:
    """Whether it is a group of the consumer protocol (KIP-848)."""
    return group is not None and group.type is GroupType.CONSUMER
