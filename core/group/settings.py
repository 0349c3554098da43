"""What the group machines are told of the broker's configuration, and of a client."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from pk.core.group.records import Record
from pk.core.machine import Decision

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may wait in JoinGroup: it has no id yet to send heartbeats with, and may be gone. Kafka's."""

EXPIRED_RECORDS_MAX: Final = 1000
"""Tombstones of one round of expiry: the batch stays far below `max.message.bytes`."""

EXPIRY_PAUSE_MS: Final = 100
"""Between two rounds of expiry, where one was not enough."""


class MigrationPolicy(StrEnum):
    """Which way groups with members may move between the protocols (`group.consumer.migration.policy`)."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of that protocol joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group becomes a classic one when its last member of the consumer
        protocol goes."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """The broker's keys for groups of the consumer protocol (KIP-848), under Kafka's defaults; of
    the first three a group may have its own, within bounds."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    """Between two target assignments of a group, so that many members that come at once cost few."""
    session_timeout_bounds_ms: tuple[int, int] = (45_000, 60_000)
    heartbeat_interval_bounds_ms: tuple[int, int] = (5000, 15_000)
    assignment_interval_bounds_ms: tuple[int, int] = (0, 15_000)
    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    """Those that members may ask for; the first is the default."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000

    def of_cluster(self, configs: Mapping[str, str]) -> ConsumerGroupSettings:
        """These under what the cluster's dynamic configs say for all brokers."""
        interval_ms = configs.get("group.consumer.assignment.interval.ms")
        return (
            self if interval_ms is None else replace(self, assignment_interval_ms=int(interval_ms))
        )

    def of_group(self, configs: Mapping[str, str]) -> ConsumerGroupSettings:
        """These under a group's own configs, which are drawn into the bounds."""
        if not configs:
            return self

        def pick(key: str, default: int, bounds: tuple[int, int]) -> int:
            text = configs.get(key)
            return default if text is None else min(max(int(text), bounds[0]), bounds[1])

        return replace(
            self,
            session_timeout_ms=pick(
                "consumer.session.timeout.ms",
                self.session_timeout_ms,
                self.session_timeout_bounds_ms,
            ),
            heartbeat_interval_ms=pick(
                "consumer.heartbeat.interval.ms",
                self.heartbeat_interval_ms,
                self.heartbeat_interval_bounds_ms,
            ),
            assignment_interval_ms=pick(
                "consumer.assignment.interval.ms",
                self.assignment_interval_ms,
                self.assignment_interval_bounds_ms,
            ),
        )


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
    consumer: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)


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
