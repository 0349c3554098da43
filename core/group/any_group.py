"""The operations that groups of every type have in common: of one group (`AnyGroup`), and of all
groups of a type (`GroupsOfType`). Requests that only one type knows are in the type's own package.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Protocol

from pk.core.group.records import Record
from pk.core.group.settings import DecisionBuilder
from pk.core.meta.image import Changes, MetadataImage
from pk.core.values import Uuid


class GroupType(StrEnum):
    """The types of groups, as ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Committer(NamedTuple):
    """The committer of offsets, as its request identifies it."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The generation, or the member epoch; -1 from outside of the group."""
    version: int
    """The version of OffsetCommit."""
    transactional: bool = False
    """Whether a transaction commits them (TxnOffsetCommit)."""


CheckPartition = Callable[[str, Uuid, int], None]
"""Takes topic, topic id and partition; raises the KafkaError with which a commit that names the
partition is refused as a whole."""


class AnyGroup(Protocol):
    """One group."""

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
        """Raise the KafkaError with which a commit is refused as a whole. Returns what checks each
        partition, None where nothing is left to check."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise the KafkaError with which an OffsetFetch is refused."""
        ...

    def check_offset_delete(self) -> None:
        """Raise the KafkaError with which an OffsetDelete is refused."""
        ...

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """Since when an offset of that commit grows old; None while it does not."""
        ...

    def tombstones(self) -> list[Record]:
        """The records that end an empty group."""
        ...


class GroupsOfType(Protocol):
    """The groups of one type in one partition of `__consumer_offsets`."""

    def describe(self, group_id: str) -> Any:
        """The group, in the answer of the request that describes its type. Raises
        GROUP_ID_NOT_FOUND, even for a group of another type."""
        ...

    def fire(self, key: tuple[Any, ...], decision: DecisionBuilder) -> None:
        """The timer `key` of one of the groups has run out."""
        ...

    def follow(self, image: MetadataImage, found: Changes, decision: DecisionBuilder) -> None:
        """The cluster is now as `image` says, which differs by `found`."""
        ...

    def loaded(self, decision: DecisionBuilder) -> None:
        """The partition is loaded: every member gets a whole session to show that it is alive."""
        ...

    def replay(self, record: Record) -> None:
        """Apply a record of one of the groups."""
        ...
