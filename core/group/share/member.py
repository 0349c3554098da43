"""One member of a share group: a value, replaced when a record changes it.

A member takes its target assignment at once: partitions are shared, so no other member has to give
one up first.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from pk.core.group.assignor import Assignment
from pk.core.values import Uuid

JOIN_EPOCH: Final = 0
"""The member epoch of a heartbeat that joins."""
LEAVE_EPOCH: Final = -1
"""The epoch of a member that leaves."""

STABLE: Final = 0
"""The only state of a member."""


class ShareMember(Struct, frozen=True):
    """A member as described by its records."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_epoch: int = 0
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Assignment = field(default_factory=dict[Uuid, frozenset[int]])
