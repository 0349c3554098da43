"""One member of a consumer group: a value, replaced when a record changes it.

A member moves from its *assigned* partitions to its target. It first gives up the revoked ones
(`UNREVOKED_PARTITIONS`), then takes the epoch of the target and gets the free ones; it waits for
those that other members still hold (`UNRELEASED_PARTITIONS`). Once reconciled it is `STABLE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct, field

from pk.core.errors import ProtocolError
from pk.core.group.consumer_protocol import SUBSCRIPTION_VERSION_MAX
from pk.core.values import NO_EPOCH, Uuid
from pk.core.wire.versioned import version_of

Current = Mapping[Uuid, Mapping[int, int]]
"""The epoch in which a member got each partition, by topic id. Immutable."""

JOIN_EPOCH: Final = 0
"""The member epoch of a heartbeat that joins."""
LEAVE_EPOCH: Final = -1
"""The epoch of a member that leaves."""
LEAVE_STATIC_EPOCH: Final = -2
"""The epoch of a static member that leaves and intends to return within its session."""


class MemberState(IntEnum):
    """The reconciliation state of a member, numbered as in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """A record of a newer broker has an unknown state."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        """Convert the number in a record."""
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES: Final = frozenset(MemberState)


class ClassicMember(Struct, frozen=True):
    """The JoinGroup data of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, subscription) of each protocol, the preferred one first."""

    @property
    def protocol(self) -> str:
        """The name of the protocol in JoinGroup's responses."""
        return self.protocols[0][0]

    @property
    def subscription_version(self) -> int:
        """The version of the member's subscription, in which its assignment is encoded too."""
        try:
            return max(0, min(version_of(self.protocols[0][1]), SUBSCRIPTION_VERSION_MAX))
        except ProtocolError:
            return 0


class ConsumerMember(Struct, frozen=True):
    """A member as described by its records."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """The topics that the member names."""
    regex: str = ""
    """An RE2 expression for further topics."""
    assignor: str | None = None
    """The server-side assignor that the member requests."""
    assigned: Current = field(default_factory=dict[Uuid, Mapping[int, int]])
    revoking: Current = field(default_factory=dict[Uuid, Mapping[int, int]])
    """The partitions that the member must give up, and whose revocation it has not confirmed."""
    classic: ClassicMember | None = None
    """The member's JoinGroup data if it uses the classic protocol, otherwise None."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has adopted all of the target assignment of `epoch`."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def epoch_of(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the epoch in which the member got a partition, or None if it does not hold it."""
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
