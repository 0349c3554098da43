"""All groups of one partition of `__consumer_offsets`, of any type. A name belongs to one group."""

from __future__ import annotations

from typing import TypeVar

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import AnyGroup, GroupType

G = TypeVar("G", bound=AnyGroup)


class Groups(dict[str, AnyGroup]):
    """All groups by name."""

    def find(self, group_id: str) -> AnyGroup:
        """Return the group of any type. Raises GROUP_ID_NOT_FOUND."""
        group = self.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def find_of(self, group_type: type[G], group_id: str) -> G:
        """Return the group of this type. Raises GROUP_ID_NOT_FOUND, also for a group of another
        type."""
        group = self.find(group_id)
        if not isinstance(group, group_type):
            raise not_of_type(group_id, group_type.type)
        return group

    def get_of(self, group_type: type[G], group_id: str) -> G | None:
        """Return the group if it exists and has this type, otherwise None."""
        group = self.get(group_id)
        return group if isinstance(group, group_type) else None

    def all_of(self, group_type: type[G]) -> list[G]:
        """Return every group of this type."""
        return [group for group in self.values() if isinstance(group, group_type)]

    def put(self, group: AnyGroup) -> None:
        """Add `group`, or replace the one with the same name."""
        self[group.group_id] = group


def not_found(group_id: str) -> KafkaError:
    """Return the error for an unknown group."""
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def not_of_type(group_id: str, group_type: GroupType) -> KafkaError:
    """Return the error for a group that exists but has another type."""
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {group_type.value} group."
    )
