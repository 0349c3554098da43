"""All groups of one partition of `__consumer_offsets`, of any type: a name belongs to one group."""

from __future__ import annotations

from typing import TypeGuard

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import AnyGroup, GroupType
from pk.core.group.classic_group import Group
from pk.core.group.consumer.group import ConsumerGroup
from pk.core.group.share.group import ShareGroup
from pk.core.group.streams.group import StreamsGroup


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

    def share(self, group_id: str) -> ShareGroup | None:
        """The group, if it is a share group."""
        group = self.get(group_id)
        return group if is_share(group) else None

    def all_share(self) -> list[ShareGroup]:
        """Every share group."""
        return [group for group in self.values() if is_share(group)]

    def streams(self, group_id: str) -> StreamsGroup | None:
        """The group, if it is a streams group."""
        group = self.get(group_id)
        return group if is_streams(group) else None

    def all_streams(self) -> list[StreamsGroup]:
        """Every streams group."""
        return [group for group in self.values() if is_streams(group)]

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


def is_share(group: AnyGroup | None) -> TypeGuard[ShareGroup]:
    """Whether it is a share group (KIP-932)."""
    return group is not None and group.type is GroupType.SHARE


def is_streams(group: AnyGroup | None) -> TypeGuard[StreamsGroup]:
    """Whether it is a streams group (KIP-1071)."""
    return group is not None and group.type is GroupType.STREAMS
