"""The configs that the group machines need, and the client that sent a request."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, Self

from msgspec import Struct, field
from msgspec.structs import replace

from pk.core.group.records import Record
from pk.core.machine import Decision

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may wait in JoinGroup, as in Kafka. It has no id for heartbeats yet, so its
absence would go unnoticed."""

EXPIRED_RECORDS_MAX: Final = 1000
"""The maximum number of tombstones in one round of expiry, which keeps the batch far below
`max.message.bytes`."""

EXPIRY_PAUSE_MS: Final = 100
"""The pause before the next round of expiry, if more offsets have expired than fit in one."""


class MigrationPolicy(StrEnum):
    """The directions in which groups with members may change their protocol
    (`group.consumer.migration.policy`)."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of the consumer protocol
        joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group becomes a classic one when its last member of the consumer
        protocol leaves."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class ModernGroupSettings(Struct, frozen=True):
    """The broker configs that consumer, share and streams groups have in common. The defaults are
    Kafka's. The cluster may override the assignment interval, and a group the first three settings,
    within bounds."""

    KIND: ClassVar[str]
    """The group's type in the names of configs: `group.KIND.…` of brokers, `KIND.…` of groups."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    """The minimum time between two target assignments of a group, so that many members that join at
    once cause few of them."""
    session_timeout_bounds_ms: tuple[int, int] = (45_000, 60_000)
    heartbeat_interval_bounds_ms: tuple[int, int] = (5000, 15_000)
    assignment_interval_bounds_ms: tuple[int, int] = (0, 15_000)
    max_size: int = 2_147_483_647

    def of_cluster(self, configs: Mapping[str, str]) -> Self:
        """Return these settings, overridden by the cluster's dynamic configs for all brokers."""
        interval_ms = configs.get(f"group.{self.KIND}.assignment.interval.ms")
        if interval_ms is None:
            return self
        return replace(self, assignment_interval_ms=int(interval_ms))

    def of_group(self, configs: Mapping[str, str]) -> Self:
        """Return these settings, overridden by a group's configs. Values out of bounds are replaced
        by the bound."""
        if not configs:
            return self
        return replace(
            self,
            session_timeout_ms=self._own(
                configs,
                "session.timeout.ms",
                self.session_timeout_ms,
                self.session_timeout_bounds_ms,
            ),
            heartbeat_interval_ms=self._own(
                configs,
                "heartbeat.interval.ms",
                self.heartbeat_interval_ms,
                self.heartbeat_interval_bounds_ms,
            ),
            assignment_interval_ms=self._own(
                configs,
                "assignment.interval.ms",
                self.assignment_interval_ms,
                self.assignment_interval_bounds_ms,
            ),
        )

    def _own(
        self, configs: Mapping[str, str], key: str, default: int, bounds: tuple[int, int]
    ) -> int:
        """Return a group's own value of `KIND.key`, clamped to `bounds`, or the default."""
        text = configs.get(f"{self.KIND}.{key}")
        return default if text is None else min(max(int(text), bounds[0]), bounds[1])


class ConsumerGroupSettings(ModernGroupSettings, frozen=True):
    """The broker configs of consumer groups (KIP-848)."""

    KIND = "consumer"

    assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors that members may request; the first is the default."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000


class ShareGroupSettings(ModernGroupSettings, frozen=True):
    """The broker configs of share groups (KIP-932)."""

    KIND = "share"

    max_size: int = 200


class StreamsGroupSettings(ModernGroupSettings, frozen=True):
    """The broker configs of streams groups (KIP-1071). A group may also override the number of
    standby replicas and the initial delay."""

    KIND = "streams"

    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3000
    """How long a new group waits for more members after the first."""
    max_standby_replicas: int = 2

    def of_group(self, configs: Mapping[str, str]) -> Self:
        """See `ModernGroupSettings.of_group`."""
        if not configs:
            return self
        return replace(
            super(StreamsGroupSettings, self).of_group(configs),  # noqa: UP008 (slots make another class)
            num_standby_replicas=self._own(
                configs,
                "num.standby.replicas",
                self.num_standby_replicas,
                (0, self.max_standby_replicas),
            ),
            initial_rebalance_delay_ms=self._own(
                configs,
                "initial.rebalance.delay.ms",
                self.initial_rebalance_delay_ms,
                (0, 2_147_483_647),
            ),
        )


class GroupSettings(Struct, frozen=True):
    """The broker configs of groups and offsets. The defaults are Kafka's."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4096
    """The limit of an offset's metadata, counted in UTF-16 units as Kafka's `String.length`
    does."""
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    consumer: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)
    share: ShareGroupSettings = field(default_factory=ShareGroupSettings)
    streams: StreamsGroupSettings = field(default_factory=StreamsGroupSettings)


class Client(NamedTuple):
    """The sender of a JoinGroup, as DescribeGroups shows it."""

    client_id: str = ""
    client_host: str = ""
    """The address in Kafka's form, such as `/127.0.0.1`."""
    may_describe: Callable[[str], bool] | None = None
    """Returns whether the client may describe a topic. None if it may describe all."""


NewId = Callable[[], str]
"""Returns the random part of a new member id. It is an argument so that the machine stays
deterministic."""


class DecisionBuilder(Decision[Record, Any]):
    """A Decision that is built step by step, at one moment. An exception within `with decision:`
    abandons it."""

    now_ms: int = 0
    may_describe: Callable[[str], bool] | None = None
    """Returns whether the client may describe a topic. None if it may describe all."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abandon()

    def abandon(self) -> None:
        """Clear the decision, and revert its changes of soft state."""
        if self.revert is not None:
            self.revert()
            self.revert = None
        for done in (self.records, self.answers, self.timers, self.effects):
            done.clear()

    def schedule(self, key: Hashable, delay_ms: int) -> None:
        """Set the timer `key`, replacing an earlier one."""
        self.timers.append((key, self.now_ms + delay_ms))

    def cancel(self, key: Hashable) -> None:
        """Cancel the timer `key`."""
        self.timers.append((key, None))

    def answer(self, token: Hashable | None, response: object) -> None:
        """Answer the request with `token`, if there is one."""
        if token is not None:
            self.answers.append((token, response))
