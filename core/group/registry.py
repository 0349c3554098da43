"""All groups of one partition of `__consumer_offsets`, of any type: a name belongs to one group."""

from __future__ import annotations

from typing import TypeVar

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import AnyGroup, GroupType

G = TypeVar("G", bound=AnyGroup)


class Groups(dict[str, AnyGroup]):
    """The groups by name."""

    def find(self, group_id: str) -> AnyGroup:
        """The group of any type. Raises GROUP_ID_NOT_FOUND."""
        group = self.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def find_of(self, group_type: type[G], group_id: str) -> G:
        """The group of this type. Raises GROUP_ID_NOT_FOUND, even for one of another type."""
        group = self.find(group_id)
        if not isinstance(group, group_type):
            raise not_of_type(group_id, group_type.type)
        return group

    def get_of(self, group_type: type[G], group_id: str) -> G | None:
        """The group, if it has this type."""
        group = self.get(group_id)
        return group if isinstance(group, group_type) else None

    def all_of(self, group_type: type[G]) -> list[G]:
        """Every group of this type."""
        return [group for group in self.values() if isinstance(group, group_type)]

    def put(self, group: AnyGroup) -> None:
        """Keep `group`, in place of one of the same name."""
        self[group.group_id] = group


def not_found(group_id: str) -> KafkaError:
    """There is no such group."""
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def not_of_type(group_id: str, group_type: GroupType) -> KafkaError:
    """The error for a group that exists, but has another type."""
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {group_type.value} group."
    )
