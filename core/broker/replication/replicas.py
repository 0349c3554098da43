"""The partitions that this broker holds, and the changes to them when the image changes.

A change has three steps, so that no request sees a part of it: `prepare` creates and opens new logs
(off the event loop), `commit` adds and removes partitions, letting other tasks run between them,
and `deletion.delete` renames the logs of deleted partitions. Only `Broker.publish` calls these, one
after another: nothing else adds or removes a partition.

The parts: `opener` opens logs and knows which partitions are offline, `failures` takes directories
of failed disks offline, `tasks` does the work on logs that must not run on the event loop, and
`deletion` deletes logs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pk.core.broker.background import Background
from pk.core.broker.clock import Clock
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.log_deletion import LogDeletion
from pk.core.broker.replication.log_opener import LogOpener
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.partition_tasks import PartitionTasks
from pk.core.broker.replication.proposals import Proposals
from pk.core.broker.replication.storage_failures import StorageFailures
from pk.core.broker.state import BrokerState
from pk.core.config import TopicConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.failures import StorageError
from pk.core.meta.events import BROKER, TOPIC
from pk.core.meta.image import (
    Changes,
    MetadataImage,
    PartitionChange,
    PartitionImage,
    TopicImage,
)
from pk.core.values import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from pk.core.log.log import Log
    from pk.core.log.log_dir import LogDir
    from pk.core.log.log_dirs import LogDirs

_NONE: dict[int, Partition] = {}


class Uncommitted(NamedTuple):
    """The part of an image that `Replicas.commit` leaves to `Replicas.commit_internal`."""

    removed: list[Partition]
    """The partitions that are already removed, and whose logs must be deleted."""
    deleted: list[TopicImage]
    changed: list[tuple[TopicPartition, PartitionImage]]


class Replicas:
    """All partitions of this broker, by topic and number."""

    def __init__(
        self,
        state: BrokerState,
        dirs: LogDirs,
        background: Background,
        *,
        purgatory: Purgatory,
        clock: Clock,
        proposals: Proposals,
    ) -> None:
        self._state = state
        self._dirs = dirs
        dirs.cordon(state.config.cordoned_log_dirs)
        self._purgatory = purgatory
        self.clock = clock
        self._by_topic: dict[str, dict[int, Partition]] = {}
        self.image = MetadataImage()
        """The last image that was committed here."""
        self.failures = StorageFailures(dirs, self, background)
        self.opener = LogOpener(state, dirs, clock, self.failures)
        self.tasks = PartitionTasks(
            state,
            self,
            self.failures,
            clock=clock,
            start_soon=background.start_soon,
            proposals=proposals,
        )
        self.deletion = LogDeletion(dirs, background.start_soon)
        self.damage_found: list[Callable[[Partition], None]] = []
        """Called with a partition when a read has found damage in its log."""

    def find(self, topic: str, partition: int) -> Partition | None:
        """Return the partition, or None if this broker does not hold it."""
        return self._by_topic.get(topic, _NONE).get(partition)

    def partition(self, topic: str, partition: int) -> Partition:
        """Return the partition. Raises NOT_LEADER_OR_FOLLOWER if only other brokers hold it,
        UNKNOWN_TOPIC_OR_PARTITION if no broker does, KAFKA_STORAGE_ERROR if its log could not be
        opened."""
        try:
            return self._by_topic[topic][partition]
        except KeyError:
            pass
        if self.opener.is_offline(TopicPartition(topic, partition)):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log could not be opened")
        if self.image.partition(topic, partition) is not None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def __iter__(self) -> Iterator[Partition]:
        # This is not a generator, because callers make a list of tens of thousands in one step of
        # the event loop.
        return chain.from_iterable(partitions.values() for partitions in self._by_topic.values())

    def by_topic(self) -> Iterator[Collection[Partition]]:
        """Yield the partitions of each topic, which share its configuration; at least one."""
        return (partitions.values() for partitions in self._by_topic.values() if partitions)

    @property
    def directories(self) -> list[LogDir]:
        """The log directories, in the order of `log.dirs`."""
        return self._dirs.directories

    def in_directory(self, directory: LogDir) -> Iterator[Partition]:
        """Yield the partitions whose logs are in `directory`."""
        return (partition for partition in self if partition.log.log_dir is directory)

    async def prepare(self, image: MetadataImage, delta: Changes) -> list[Partition]:
        """Create and open the logs of partitions that are new to this broker or were offline. The
        latter become changes in `delta`, since followers of the image have not seen them. A
        partition whose log cannot be opened is offline; the others are unaffected."""
        self._dirs.cordon(self._state.config.cordoned_log_dirs)
        recreated = [topic for topic in delta.topics_deleted if topic.name in image.topics]
        if recreated:
            # If a topic was deleted and created again, remove the old logs before the new ones are
            # opened.
            await self.deletion.delete(self._remove_deleted(recreated))
        wanted: list[PartitionChange] = []
        for change in delta.partitions:
            if (
                self._state.node_id in change.new.replicas
                and not self._holds(change.topic.topic_id, change.tp)
                and not self.opener.is_lost(change)
            ):
                wanted.append(change)
            await let_others_run()
        retried = self.opener.to_retry(image, wanted)
        wanted += retried
        topic_configs: dict[str, TopicConfig] = {}
        log_configs: dict[str, LogConfig] = {}
        for name in {change.topic.name: None for change in wanted}:
            topic_configs[name], log_configs[name] = self._configs(image, name)
            await let_others_run()
        opened: list[Partition] = []
        for change, log in await self.opener.open(wanted, log_configs):
            opened.append(self._partition_of(change, log, topic_configs[change.topic.name]))
            await let_others_run()
        delta.partitions += [one for one in retried if not self.opener.is_offline(one.tp)]
        return opened

    async def commit(
        self, image: MetadataImage, delta: Changes, opened: list[Partition]
    ) -> Uncommitted:
        """Add opened partitions, apply new leaders and configs, remove deleted partitions. Each
        partition matches either `image` or the previous image. Internal topics are left to
        `commit_internal`."""
        self.image, self.opener.starting = image, False
        deleted = [topic for topic in delta.topics_deleted if topic.name not in INTERNAL_TOPICS]
        uncommitted = Uncommitted(
            self._remove_deleted(deleted),
            [topic for topic in delta.topics_deleted if topic.name in INTERNAL_TOPICS],
            [],
        )
        changed: dict[TopicPartition, PartitionImage] = {}
        for change in delta.partitions:
            changed[change.tp] = change.new
        for partition in opened:
            name, number = partition.tp
            self._by_topic.setdefault(name, {})[number] = partition
            new = image.partition(name, number)
            if new is not None:
                changed[partition.tp] = new
        # Apply configs before the ISRs of the same image: the controller judged these ISRs by that
        # `min.insync.replicas`.
        await self._reconfigure(image, delta, opened)
        for tp, new in changed.items():
            if tp.topic in INTERNAL_TOPICS:
                uncommitted.changed.append((tp, new))
                continue
            self._commit_one(tp, new, uncommitted.removed)
        return uncommitted

    def commit_internal(self, uncommitted: Uncommitted) -> list[Partition]:
        """Like `commit`, for internal topics and in one step, since their coordinators follow
        without a checkpoint. Returns all removed partitions, whose logs must be deleted."""
        removed = uncommitted.removed + self._remove_deleted(uncommitted.deleted)
        for tp, new in uncommitted.changed:
            self._commit_one(tp, new, removed)
        return removed

    def _commit_one(
        self, tp: TopicPartition, new: PartitionImage, removed: list[Partition]
    ) -> None:
        partition = self.find(*tp)
        if partition is not None and self._state.node_id not in new.replicas:
            del self._by_topic[tp.topic][tp.partition]
            partition.stop()
            removed.append(partition)
        elif partition is not None:
            try:
                partition.apply(new)
            except StorageError as e:
                self.failures.fail_partition(partition, e)
            if partition.log.mark is not None and is_in_sync_again(self._state.node_id, new):
                self.tasks.clear_damage_soon(partition, new)

    def _remove_deleted(self, deleted: list[TopicImage]) -> list[Partition]:
        """Remove the partitions of deleted topics; lookups no longer find them."""
        removed: list[Partition] = []
        for topic in deleted:
            self.opener.forget(topic)
            held = self._by_topic.get(topic.name, {})
            for number, partition in list(held.items()):
                if partition.topic_id == topic.topic_id:
                    removed.append(held.pop(number))
                    partition.stop()
            if not held:
                self._by_topic.pop(topic.name, None)
        return removed

    def _holds(self, topic_id: bytes, tp: TopicPartition) -> bool:
        partition = self.find(*tp)
        return partition is not None and partition.topic_id == topic_id

    def _configs(self, image: MetadataImage, topic: str) -> tuple[TopicConfig, LogConfig]:
        """Return the settings of a topic, and those of its logs."""
        config = self._state.config
        of_topic = config.topic(image.topic_configs(topic))
        expiration_ms = config.producer_id_expiration_ms
        return of_topic, LogConfig.of(of_topic, producer_id_expiration_ms=expiration_ms)

    def _partition_of(self, change: PartitionChange, log: Log, config: TopicConfig) -> Partition:
        return Partition(
            log,
            config,
            node_id=self._state.node_id,
            purgatory=self._purgatory,
            owner=self.tasks,
            high_watermark=self._dirs.high_watermark(change.tp),
        )

    async def _reconfigure(
        self, image: MetadataImage, delta: Changes, opened: list[Partition]
    ) -> None:
        """Apply changed configs to the partitions that they affect; a broker's own configs affect
        all partitions. Partitions that were opened for `image` already have them."""
        topics = {name for kind, name in delta.configs if kind == TOPIC}
        if any(kind == BROKER for kind, _ in delta.configs):
            topics.update(self._by_topic)
        new = frozenset(opened) if topics else frozenset[Partition]()
        for name in topics:
            held = self._by_topic.get(name)
            if not held:
                continue
            await let_others_run()
            config, log_config = self._configs(image, name)
            for partition in held.values():
                if partition not in new:
                    partition.config = config
                    partition.log.configure(log_config)
                await let_others_run()


def is_in_sync_again(node_id: int, image: PartitionImage) -> bool:
    """Return whether a replica that was found damaged counts as undamaged again: it is in sync with
    others, or leads. A partition's only replica stays damaged."""
    if len(image.replicas) == 1 or node_id not in image.isr:
        return False
    return len(image.isr) > 1 or image.leader == node_id
