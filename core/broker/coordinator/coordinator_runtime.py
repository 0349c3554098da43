"""The coordinators of this broker: one a partition that it leads of an internal topic.

`Coordinators` is the same for every kind of machine: which partition a key belongs to, and that the coordinators follow the
leadership of their partitions. `GroupCoordinators` are those of `__consumer_offsets`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic
from uuid import UUID

from pk.core.broker.coordinator.coordinator import Coordinator, M, State, Surroundings
from pk.core.broker.coordinator.timers import Timers
from pk.core.broker.requests.auto_topic_creation import create_missing
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.group.settings import GroupSettings
from pk.core.machine import Decision
from pk.core.record.compress import Codec
from pk.core.values import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    coordinator_partition,
)

if TYPE_CHECKING:
    from pk.core.broker.broker import Broker
    from pk.core.meta.image import Changes, MetadataImage, PartitionImage

logger = logging.getLogger("pk.coordinator")

_partition_of = lru_cache(maxsize=65536)(coordinator_partition)
"""Java's hash of a string, character by character, is dear; the same groups ask again and again."""


class Coordinators(Generic[M]):
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


class GroupCoordinators(Coordinators[GroupMachine]):
    """The group coordinators of this broker."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(OFFSETS_TOPIC, self._machine, broker)

    def _machine(self) -> GroupMachine:
        config = self._broker.config
        settings = GroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )
        return GroupMachine(settings, self._new_id)

    def _new_id(self) -> str:
        return str(UUID(int=self._broker.random.getrandbits(128), version=4))

    def apply(self, image: MetadataImage, found: Changes) -> None:
        """Follow what changed; offsets of deleted topics go too."""
        super().apply(image, found)
        gone = [(t.name, t.topic_id) for t in found.topics_deleted if t.name not in INTERNAL_TOPICS]
        if gone:
            for coordinator in self:
                coordinator.when_active(
                    lambda machine, now_ms: machine.topics_deleted(gone, now_ms)
                )

    def check_loaded(self) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS where some groups are not known yet."""
        if any(c.state is State.LOADING for c in self):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def create_topic(self) -> None:
        """Have `__consumer_offsets` created, if it is not there. A refusal is logged: the client asks again."""
        try:
            refused = await create_missing(self._broker, [OFFSETS_TOPIC])
        except KafkaError as e:
            logger.warning("%s was not created: %s", OFFSETS_TOPIC, e)
            return
        for _, message in refused.values():
            logger.warning("%s was not created: %s", OFFSETS_TOPIC, message)
