"""The coordinators of this broker: one a partition that it leads of an internal topic.

It is the same for every kind of machine: which partition a key belongs to, and that the coordinators follow the leadership
of their partitions. What a kind adds is in a file of its own (group_coordinators.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic

from pk.core.broker.coordinator.coordinator import Coordinator, M, Surroundings
from pk.core.broker.coordinator.timers import Timers
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.record.compress import Codec
from pk.core.values import coordinator_partition

if TYPE_CHECKING:
    from pk.core.broker.broker import Broker
    from pk.core.meta.image import Changes, MetadataImage, PartitionImage

_partition_of = lru_cache(maxsize=65536)(coordinator_partition)
"""Java's hash of a string, character by character, is dear; the same groups ask again and again."""


class CoordinatorRuntime(Generic[M]):
    """Those of one internal topic, by partition."""

    def __init__(self, topic: str, make_machine: Callable[[], M], broker: Broker) -> None:
        self.topic = topic
        self._make_machine = make_machine
        self._broker = broker
        self._timers: Timers[Coordinator[M]] = Timers()
        self._by_partition: dict[int, Coordinator[M]] = {}
        self._ticking = False

    def submit(self, key: str, decide: Callable[[M, Hashable, int], Decision[Any]]) -> Any:
        """Have the coordinator of `key` decide (see `Coordinator.submit`). Raises NOT_COORDINATOR where it is not
        here."""
        return self.coordinator(key).submit(decide)

    def coordinator(self, key: str) -> Coordinator[M]:
        """The coordinator of `key`. Raises NOT_COORDINATOR."""
        number = self.partition_of(key)
        found = self._by_partition.get(number) if number is not None else None
        if found is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return found

    def partition_of(self, key: str) -> int | None:
        """The partition that `key` belongs to; None while there is no such topic."""
        topic = self._broker.image.topics.get(self.topic)
        if topic is None or not topic.partitions:
            return None
        return _partition_of(key, len(topic.partitions))

    def __iter__(self) -> Iterator[Coordinator[M]]:
        return iter(list(self._by_partition.values()))

    def apply(self, image: MetadataImage, found: Changes) -> None:
        """Follow what changed: load what this broker leads now, close what it leads no more."""
        for topic in found.topics_deleted:
            if topic.name == self.topic:
                for number in list(self._by_partition):
                    self._close(number)
        for change in found.partitions:
            if change.topic.name == self.topic:
                self._follow(change.new)

    async def stop(self) -> None:
        """Close all: who waits is sent elsewhere."""
        for number in list(self._by_partition):
            self._close(number)

    def _follow(self, image: PartitionImage) -> None:
        number = image.partition
        partition = self._broker.replicas.find(self.topic, number)
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
                self._broker.start_soon(self._timers.run, Coordinator.fire)
            found = Coordinator(partition, self._make_machine, self._surroundings())
            self._by_partition[number] = found
            self._broker.start_soon(found.load)

    def _close(self, number: int) -> None:
        self._by_partition.pop(number).close()

    def _surroundings(self) -> Surroundings:
        broker = self._broker
        return Surroundings(
            broker.clock,
            self._timers,
            broker.start_soon,
            broker.config.offsets_commit_timeout_ms,
            broker.config.offsets_load_buffer_size,
            Codec(broker.config.offsets_topic_compression_codec),
        )
