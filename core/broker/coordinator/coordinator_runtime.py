"""The coordinators of this broker: one for each partition of an internal topic that it leads.

The runtime is the same for every kind of machine: it maps keys to partitions, and its coordinators
follow the leadership of their partitions. A kind that needs more has its own file
(group_coordinators.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from pk.core.broker.coordinator.coordinator_shard import (
    CoordinatorShard,
    M,
    Reply,
    ShardEnvironment,
)
from pk.core.broker.coordinator.timers import Timers
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision, Effect
from pk.core.record.compress import Codec
from pk.core.values import coordinator_partition

if TYPE_CHECKING:
    from pk.core.config import BrokerConfig
    from pk.core.meta.image import Changes, MetadataImage, PartitionImage

_partition_of = lru_cache(maxsize=65536)(coordinator_partition)
"""Java's hash of a string is slow in Python, and requests repeat the same groups."""


class CoordinatorSettings(NamedTuple):
    """How the logs of one kind of coordinator are written and read."""

    commit_timeout_ms: int
    """How long a response may wait for the high watermark, in ms."""
    load_bytes: int
    """The size of one read of the log while it loads, in bytes."""
    codec: Codec = Codec.NONE


class CoordinatorRuntime(Generic[M]):
    """The coordinators of one internal topic, by partition."""

    def __init__(
        self,
        topic: str,
        make_machine: Callable[[], M],
        state: BrokerState,
        replicas: Replicas,
        start_soon: Callable[..., None],
    ) -> None:
        """`make_machine` creates the machine of a coordinator; `start_soon` starts a background
        task."""
        self.topic = topic
        self._make_machine = make_machine
        self._state = state
        self._replicas = replicas
        self._start_soon = start_soon
        self._timers: Timers[CoordinatorShard[M]] = Timers()
        self._by_partition: dict[int, CoordinatorShard[M]] = {}
        self._ticking = False

    async def submit(
        self, key: str, decide: Callable[[M, Hashable, int], Decision[Any, Reply]]
    ) -> Reply:
        """Return the reply of the coordinator of `key` (see `CoordinatorShard.submit`). Raises
        NOT_COORDINATOR if this broker does not have it."""
        return await self.coordinator(key).submit(decide)

    def submit_nowait(
        self, key: str, decide: Callable[[M, Hashable, int], Decision[Any, Reply]]
    ) -> Reply | Awaitable[Reply]:
        """Let the coordinator of `key` decide at once (see `CoordinatorShard.submit_nowait`).
        Raises NOT_COORDINATOR if this broker does not have it."""
        return self.coordinator(key).submit_nowait(decide)

    def coordinator(self, key: str) -> CoordinatorShard[M]:
        """Return the coordinator of `key`. Raises NOT_COORDINATOR."""
        number = self.partition_of(key)
        found = self._by_partition.get(number) if number is not None else None
        if found is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return found

    def partition_of(self, key: str) -> int | None:
        """Return the partition of `key`, or None if the topic does not exist."""
        topic = self._state.image.topics.get(self.topic)
        if topic is None or not topic.partitions:
            return None
        return _partition_of(key, len(topic.partitions))

    def __iter__(self) -> Iterator[CoordinatorShard[M]]:
        return iter(list(self._by_partition.values()))

    def at(self, partition: int) -> CoordinatorShard[M]:
        """Return the coordinator whose log is this partition. Raises NOT_COORDINATOR."""
        found = self._by_partition.get(partition)
        if found is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return found

    def image_changed(self, image: MetadataImage, delta: Changes) -> None:
        """Load the coordinators of new leaderships, and close those whose leadership has ended. The
        other machines get the image."""
        for topic in delta.topics_deleted:
            if topic.name == self.topic:
                for number in list(self._by_partition):
                    self._close(number)
        for change in delta.of_topic(self.topic).values():
            self._follow_image(change.new)
        if delta:
            for coordinator in self:
                coordinator.follow(delta)

    async def stop(self) -> None:
        """Close all coordinators; waiting requests get NOT_COORDINATOR."""
        for number in list(self._by_partition):
            self._close(number)

    def _follow_image(self, image: PartitionImage) -> None:
        number = image.partition
        partition = self._replicas.find(self.topic, number)
        leads = partition is not None and partition.leads
        known = self._by_partition.get(number)
        if known is not None and not (
            leads and known.partition is partition and known.leader_epoch == image.leader_epoch
        ):
            self._close(number)
            known = None
        if partition is not None and leads and known is None:
            if not self._ticking:
                self._ticking = True
                self._start_soon(self._timers.run, CoordinatorShard[M].fire)
            found = CoordinatorShard(partition, self._make_machine, self._environment())
            self._by_partition[number] = found
            self._start_soon(found.load)

    def _close(self, number: int) -> None:
        self._by_partition.pop(number).close()

    def _environment(self) -> ShardEnvironment:
        state, settings = self._state, self.settings(self._state.config)
        return ShardEnvironment(
            self._replicas.clock,
            self._timers,
            self._start_soon,
            settings.commit_timeout_ms,
            settings.load_bytes,
            settings.codec,
            lambda: state.image,
            self.carry_out,
        )

    # --- defined by each kind of coordinator ---

    def settings(self, config: BrokerConfig) -> CoordinatorSettings:
        """Return the settings for reading and writing the coordinators' logs."""
        raise NotImplementedError

    def carry_out(self, coordinator: CoordinatorShard[Any], effect: Effect) -> None:
        """Begin to carry out an effect of its machine's. Does not wait."""
        raise NotImplementedError(f"{type(self).__name__} cannot carry out {effect!r}")
