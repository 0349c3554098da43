"""The group machines' view of the broker's configuration, and of a client."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, Self

from msgspec import Struct, field
from msgspec.structs import replace

from pk.core.group.records import Record
from pk.core.machine import Decision

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may wait in JoinGroup: it has no id yet to send heartbeats with, and may be
gone. Kafka's."""

EXPIRED_RECORDS_MAX: Final = 1000
"""Tombstones of one round of expiry: the batch stays far below `max.message.bytes`."""

EXPIRY_PAUSE_MS: Final = 100
"""The pause between two rounds of expiry, if one was not enough."""


class MigrationPolicy(StrEnum):
    """The directions in which groups with members may move between the protocols
    (`group.consumer.migration.policy`)."""

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


class ModernGroupSettings(Struct, frozen=True):
    """The broker's keys that consumer, share and streams groups have in common, under Kafka's
    defaults. The cluster or a group may override the first three, within bounds."""

    KIND: ClassVar[str]
    """The group's type in the names of keys: `group.KIND.…` of brokers, `KIND.…` of groups."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    """Between two target assignments of a group, so that many members that come at once cost
    few."""
    session_timeout_bounds_ms: tuple[int, int] = (45_000, 60_000)
    heartbeat_interval_bounds_ms: tuple[int, int] = (5000, 15_000)
    assignment_interval_bounds_ms: tuple[int, int] = (0, 15_000)
    max_size: int = 2_147_483_647

    def of_cluster(self, configs: Mapping[str, str]) -> Self:
        """These under what the cluster's dynamic configs say for all brokers."""
        interval_ms = configs.get(f"group.{self.KIND}.assignment.interval.ms")
        if interval_ms is None:
            return self
        return replace(self, assignment_interval_ms=int(interval_ms))

    def of_group(self, configs: Mapping[str, str]) -> Self:
        """These under a group's own configs, which are drawn into the bounds."""
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
        """A group's own value of `KIND.key`, or the default."""
        text = configs.get(f"{self.KIND}.{key}")
        return default if text is None else min(max(int(text), bounds[0]), bounds[1])


class ConsumerGroupSettings(ModernGroupSettings, frozen=True):
    """The broker's keys for groups of the consumer protocol (KIP-848)."""

    KIND = "consumer"

    assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors that members may request; the first is the default."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000


class ShareGroupSettings(ModernGroupSettings, frozen=True):
    """The broker's keys for share groups (KIP-932)."""

    KIND = "share"

    max_size: int = 200


class StreamsGroupSettings(ModernGroupSettings, frozen=True):
    """The broker's keys for streams groups (KIP-1071); a group may also have its own number of
    standby replicas and first delay."""

    KIND = "streams"

    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3000
    """How long a group without members waits for more than the first."""
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
    share: ShareGroupSettings = field(default_factory=ShareGroupSettings)
    streams: StreamsGroupSettings = field(default_factory=StreamsGroupSettings)


class Client(NamedTuple):
    """The sender of a JoinGroup, as DescribeGroups will show the member."""

    client_id: str = ""
    client_host: str = ""
    """The address in Kafka's form: `/127.0.0.1`."""
    may_describe: Callable[[str], bool] | None = None
    """Whether it may describe a topic; None if it may describe all."""


NewId = Callable[[], str]
"""Makes the random part of a member id; chance is an argument."""


class DecisionBuilder(Decision[Record, Any]):
    """A Decision that is being made, at one moment. An exception within `with decision:` gives it
    up."""

    now_ms: int = 0
    may_describe: Callable[[str], bool] | None = None
    """Whether the client that asks may describe a topic; None if it may describe all."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.give_up()

    def give_up(self) -> None:
        """Abandon the decision: it is empty again, and its changes of soft state are reverted."""
        if self.take_back is not None:
            self.take_back()
            self.take_back = None
        for done in (self.records, self.answers, self.timers, self.effects):
            done.clear()

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
