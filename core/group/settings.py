"""What the group machines are told of the broker's configuration, and of a client."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

from pk.core.group.records import Record
from pk.core.machine import Decision

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may wait in JoinGroup: it has no id yet to send heartbeats with, and may be gone. Kafka's."""

EXPIRED_RECORDS_MAX: Final = 1000
"""Tombstones of one round of expiry: the batch stays far below `max.message.bytes`."""

EXPIRY_PAUSE_MS: Final = 100
"""Between two rounds of expiry, where one was not enough."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker's keys that groups and offsets obey, under Kafka's defaults."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4096
    """Counted in UTF-16 units, as Kafka's `String.length` does."""
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000


class Client(NamedTuple):
    """Who sent a JoinGroup: what DescribeGroups will say of the member."""

    client_id: str = ""
    client_host: str = ""
    """As Kafka prints an address: `/127.0.0.1`."""


NewId = Callable[[], str]
"""Makes the random part of a member id; chance is an argument."""


@dataclass(slots=True)
class Step(Decision[Record]):
    """A Decision while it is being made, at one moment."""

    now_ms: int = 0

    def schedule(self, key: Hashable, delay_ms: int) -> None:
        """Set the timer `key`, in place of the one it may have."""
        self.timers.append((key, self.now_ms + delay_ms))

    def cancel(self, key: Hashable) -> None:
        """Forget the timer `key`."""
        self.timers.append((key, None))

    def answer(self, token: Hashable | None, response: object) -> None:
        """Answer the request that came with `token`, if one waits."""
        if token is not None:
            self.answers.append((token, response))
