"""The operations that all types of groups have in common: on one group (`AnyGroup`), and on all
groups of a type (`GroupsOfType`). Requests for a single type are in the package of that type."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Protocol

from pk.core.group.records import Record
from pk.core.group.settings import DecisionBuilder
from pk.core.meta.image import Changes, MetadataImage
from pk.core.values import Uuid


class GroupType(StrEnum):
    """The types of groups, named as in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Committer(NamedTuple):
    """A client that commits offsets, as its request identifies it."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The generation or the member epoch, or -1 for a client outside the group."""
    version: int
    """The version of OffsetCommit."""
    transactional: bool = False
    """Whether the commit is part of a transaction (TxnOffsetCommit)."""


CheckPartition = Callable[[str, Uuid, int], None]
"""A check of one partition of a commit, by topic, topic id and partition. It raises the KafkaError
with which the whole commit is refused."""


class AnyGroup(Protocol):
    """A group of any type."""

    group_id: str
    type: ClassVar[GroupType]

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        ...

    @property
    def state_name(self) -> str:
        """The group's state, named as in ListGroups."""
        ...

    @property
    def protocol_type_name(self) -> str:
        """The group's protocol type, named as in ListGroups."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is, or may be, subscribed to `topic`."""
        ...

    def check_commit(self, committer: Committer) -> CheckPartition | None:
        """Raise the KafkaError with which a commit is refused as a whole. Returns a check of each
        partition, or None if no further check is needed."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise the KafkaError with which an OffsetFetch is refused."""
        ...

    def check_offset_delete(self) -> None:
        """Raise the KafkaError with which an OffsetDelete is refused."""
        ...

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """Return the time from which an offset of that commit ages, or None if it does not
        expire."""
        ...

    def tombstones(self) -> list[Record]:
        """Return the records that delete an empty group."""
        ...


class GroupsOfType(Protocol):
    """The groups of one type in one partition of `__consumer_offsets`."""

    def describe(self, group_id: str) -> Any:
        """Describe the group, as in the response of its type's Describe API. Raises
        GROUP_ID_NOT_FOUND, also for a group of another type."""
        ...

    def fire(self, key: tuple[Any, ...], decision: DecisionBuilder) -> None:
        """Handle an expired timer of one of the groups."""
        ...

    def follow(self, image: MetadataImage, delta: Changes, decision: DecisionBuilder) -> None:
        """Handle a new image of the cluster, which differs from the last one by `delta`."""
        ...

    def loaded(self, decision: DecisionBuilder) -> None:
        """Start serving: the partition is loaded. Every member gets a full session timeout to send
        a heartbeat."""
        ...

    def replay(self, record: Record) -> None:
        """Apply a record of one of the groups."""
        ...
