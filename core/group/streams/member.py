"""One member of a streams group: a value, replaced when a record changes it.

A member is a thread of an application; the threads of one process share its id. A member moves from
its *assigned* tasks to its target. It first gives up tasks (`UNREVOKED_TASKS`), then takes the
epoch of the target and the free tasks, and waits for those that other members still hold
(`UNRELEASED_TASKS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct, field

from pk.core.group.streams.tasks import HOLDS_NONE, HeldTasks

JOIN_EPOCH: Final = 0
"""The member epoch of a heartbeat that joins."""
LEAVE_EPOCH: Final = -1
"""The epoch of a member that leaves."""
LEAVE_STATIC_EPOCH: Final = -2
"""The epoch of a static member that leaves temporarily. Apache Kafka 4.3.1 has no static members of
streams groups."""

NO_TOPOLOGY_EPOCH: Final = -1


class MemberState(IntEnum):
    """The reconciliation state of a member, numbered as in its record."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127
    """A record of a newer broker has an unknown state."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        """Convert the number in a record."""
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES: Final = frozenset(MemberState)


class Endpoint(NamedTuple):
    """The address of an application for interactive queries (`application.server`)."""

    host: str
    port: int


class StreamsMember(Struct, frozen=True):
    """A member as described by its records."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    assigned: HeldTasks = HOLDS_NONE
    revoking: HeldTasks = HOLDS_NONE
    """The tasks that the member must give up, and whose revocation it has not confirmed."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has adopted all of the target assignment of `epoch`."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def epoch_of(self, subtopology_id: str, partition: int) -> int | None:
        """Return the epoch in which the member got an active task, or None if it does not hold
        it."""
        for held in (self.assigned, self.revoking):
            epoch = held.active.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
