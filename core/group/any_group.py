"""Operations common to groups of all types: listing, deleting, and committing, fetching, deleting
or expiring offsets. Operations of a single type are in that type's own files.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol

from pk.core.group.records import Record
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
    """The operations common to groups of all types."""

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
