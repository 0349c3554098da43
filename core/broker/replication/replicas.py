"""The partitions that this broker holds, and the changes to their logs when the image changes.

A change has three steps, so that no request sees it half done: `prepare` creates and opens new logs
(off the loop), `commit` adds and removes partitions, letting other tasks run between them, and
`retire` renames the logs of deleted partitions. Only `Broker.publish` calls these, one after
another: nothing else adds or removes a partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, NamedTuple

import trio

from pk.core.broker.clock import Clock
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import is_inline, offload
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.recovery_progress import RecoveryProgress
from pk.core.broker.replication.recovery_threads import RecoveryThreads
from pk.core.config import BrokerConfig, TopicConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.failures import StorageError, Unforeseen, of_one_log
from pk.core.log.retention import is_behind
from pk.core.meta.events import BROKER, TOPIC
from pk.core.meta.image import (
    BrokerImage,
    Changes,
    MetadataImage,
    PartitionChange,
    PartitionImage,
    TopicImage,
)
from pk.core.values import INTERNAL_TOPICS, ZERO_UUID, TopicIdPartition, TopicPartition, Uuid

if TYPE_CHECKING:
    from pk.core.log.dirs import LogDir, LogDirs
    from pk.core.log.log import Log

logger = logging.getLogger("pk.broker")

OPEN_AT_ONCE = 256
"""How many logs one turn through a thread opens."""

TURNS = 8
"""The number of parts in which a thread takes logs to recover, so that a large log delays only
its own part."""

ALONE_AT_ONCE = 16
"""The number of logs one thread recovers before we measure whether more threads would help."""

SNAPSHOT_BYTES_MAX = 1 << 15
"""A larger state of producers is read when its log is opened: 100,000 of them would keep the loop
for a tenth of a second. Smaller ones wait for their first use: 10,000 logs are opened without
reading any."""

_NONE: dict[int, Partition] = {}


class Uncommitted(NamedTuple):
    """The part of an image that `Replicas.commit` leaves to `Replicas.commit_internal`."""

    gone: list[Partition]
    """The partitions that are removed already, and must be retired."""
    deleted: list[TopicImage]
    changed: list[tuple[TopicPartition, PartitionImage]]


class _Recovery(NamedTuple):
    """The progress of recovering all logs, and the number of threads for it."""

    progress: RecoveryProgress
    threads: RecoveryThreads


class Replicas:
    """All partitions of this broker, by topic and number."""

    def __init__(
        self,
        dirs: LogDirs,
        config: BrokerConfig,
        *,
        node_id: int,
        purgatory: Purgatory,
        clock: Clock,
        start_soon: Callable[..., None],
        fail_broker: Callable[[str], None],
        propose: Callable[[Partition], None],
        directory_failed: Callable[[], None],
        log_flushed: Callable[[float], None],
    ) -> None:
        """`start_soon(fn, *args)` runs a background task of the broker's; `fail_broker(why)` is
        called when no directory is left, `propose(partition)` for each partition that has a change
        of its ISR to ask for, `directory_failed()` when a log directory has failed,
        `log_flushed(seconds)` after each sync of a log."""
        self._dirs = dirs
        self._broker_config = config
        dirs.cordon(config.cordoned_log_dirs)
        self._node_id = node_id
        self._purgatory = purgatory
        self.clock = clock
        self._start_soon = start_soon
        self._fail_broker = fail_broker
        self._offline: dict[TopicPartition, tuple[PartitionChange, KafkaError]] = {}
        """Partitions whose logs could not be opened, and why. Tried again with each image while
        their directory works."""
        self._lost: dict[TopicPartition, bytes] = {}
        """Partitions, with their topics' ids, whose logs are in a directory that had failed at the
        start. An empty log in another directory would be no replacement."""
        self._loaded = False
        self._image = MetadataImage()
        self.lag_s = config.replica_lag_time_max_ms / 1000
        self._propose = propose
        self._directory_failed = directory_failed
        self._log_flushed = log_flushed
        self.damage_met: list[Callable[[Partition], None]] = []
        """Called with a partition in whose log a read has met damage."""
        self.was_cut: list[Callable[[Partition, int], None]] = []
        """Called with each partition whose log was truncated, and its new end."""
        self._by_topic: dict[str, dict[int, Partition]] = {}

    def find(self, topic: str, partition: int) -> Partition | None:
        """The partition, or None if this broker does not hold it."""
        return self._by_topic.get(topic, _NONE).get(partition)

    def partition(self, topic: str, partition: int) -> Partition:
        """The partition. Raises NOT_LEADER_OR_FOLLOWER if only others hold it,
        UNKNOWN_TOPIC_OR_PARTITION if no broker does, KAFKA_STORAGE_ERROR if its log could not
        be opened."""
        try:
            return self._by_topic[topic][partition]
        except KeyError:
            pass
        if (topic, partition) in self._offline or (topic, partition) in self._lost:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log could not be opened")
        if self._image.partition(topic, partition) is not None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def now(self) -> float:
        """Seconds of trio's clock."""
        return self.clock.time()

    def broker(self, node_id: int) -> BrokerImage | None:
        """A registered broker, as the last image that was committed here knows it."""
        return self._image.brokers.get(node_id)

    def propose(self, partition: Partition) -> None:
        """The partition has a change of its ISR to ask for."""
        self._propose(partition)

    def __iter__(self) -> Iterator[Partition]:
        # Not a generator: a list of all, of tens of thousands, is made in one step of the loop.
        return chain.from_iterable(partitions.values() for partitions in self._by_topic.values())

    def by_topic(self) -> Iterator[Collection[Partition]]:
        """The partitions of each topic, which share its configuration; at least one."""
        return (partitions.values() for partitions in self._by_topic.values() if partitions)

    @property
    def directories(self) -> list[LogDir]:
        """The log directories, in the order of `log.dirs`."""
        return self._dirs.directories

    @property
    def offline_directories(self) -> list[Uuid]:
        """The ids of the directories that have failed, as far as they could be read (KIP-858)."""
        failed = (d.directory_id for d in self._dirs.directories if d.failed)
        return [directory_id for directory_id in failed if directory_id != ZERO_UUID]

    def unreadable(self) -> Iterator[TopicIdPartition]:
        """The partitions whose logs could not be opened."""
        for tp, (change, _) in self._offline.items():
            yield TopicIdPartition(change.topic.topic_id, tp.partition)
        for tp, topic_id in self._lost.items():
            yield TopicIdPartition(topic_id, tp.partition)

    def in_directory(self, directory: LogDir) -> Iterator[Partition]:
        """The partitions whose logs are in `directory`."""
        return (partition for partition in self if partition.log.log_dir is directory)

    async def prepare(
        self, image: MetadataImage, found: Changes, config: BrokerConfig
    ) -> list[Partition]:
        """Create and open the logs of partitions that are new to this broker or were offline. The
        latter become changes in `found`, since followers of the image have not seen them. One
        that cannot be opened is offline; the others are unaffected."""
        self._broker_config = config
        self._dirs.cordon(config.cordoned_log_dirs)
        again = [topic for topic in found.topics_deleted if topic.name in image.topics]
        if again:
            # A topic created again under its name: remove the old logs before the new ones open.
            await self.retire(self._take_out(again))
        wanted: list[PartitionChange] = []
        asked: set[TopicPartition] = set()
        for change in found.partitions:
            if (
                self._node_id in change.new.replicas
                and not self._holds(change.topic.topic_id, change.tp)
                and not self._is_lost(change)
            ):
                wanted.append(change)
                if self._offline:
                    asked.add(change.tp)
            await let_others_run()
        retried = self._to_try_again(image, asked)
        wanted += retried
        opened: list[Partition] = []
        configs: dict[str, TopicConfig] = {}
        to_recover = self._dirs.to_recover
        recovery = None
        if to_recover:
            threads_max = config.num_recovery_threads_per_data_dir * len(self._dirs.usable)
            progress = RecoveryProgress(to_recover, self.clock.now_ms)
            recovery = _Recovery(progress, RecoveryThreads(1 if is_inline() else threads_max))
        for start in range(0, len(wanted), OPEN_AT_ONCE):
            some = wanted[start : start + OPEN_AT_ONCE]
            for change in some:
                name = change.topic.name
                if name not in configs:
                    configs[name] = self._config(image, name)
            for change, log in zip(
                some, await offload(self._open, some, configs, recovery), strict=True
            ):
                if isinstance(log, KafkaError):
                    if change.tp not in self._offline:
                        cause = log.__cause__ if isinstance(log, Unforeseen) else None
                        logger.error("%s is offline: %s", change.tp, log, exc_info=cause)
                    self._offline[change.tp] = change, log
                    if isinstance(log, StorageError):
                        self.storage_failed(log)
                else:
                    self._offline.pop(change.tp, None)
                    opened.append(self._enter(change, log, configs[change.topic.name]))
        if recovery is not None:
            recovery.progress.end()
        late = [change for change in retried if change.tp not in self._offline]
        if late:
            found.partitions += late
        return opened

    def _is_lost(self, change: PartitionChange) -> bool:
        """Whether its log is in a place this broker cannot reach (see `_lost`)."""
        tp, topic_id = change.tp, change.topic.topic_id
        if not self._loaded and len(self._dirs.usable) < len(self._dirs.directories):
            if not any(tp in directory.found for directory in self._dirs.usable):
                self._lost[tp] = topic_id
                logger.error("%s is offline: its log directory has failed", tp)
        elif self._lost.get(tp, topic_id) != topic_id:
            del self._lost[tp]
        return tp in self._lost

    def _to_try_again(
        self, image: MetadataImage, wanted: set[TopicPartition]
    ) -> list[PartitionChange]:
        """The offline partitions that the image's changes do not cover; the rest are forgotten."""
        again: list[PartitionChange] = []
        for tp, (change, _) in list(self._offline.items()):
            topic, new = image.topics.get(tp.topic), image.partition(*tp)
            if (
                topic is None
                or new is None
                or topic.topic_id != change.topic.topic_id
                or self._node_id not in new.replicas
            ):
                del self._offline[tp]
            elif tp not in wanted and self._dirs.usable:
                again.append(PartitionChange(topic, None, new))
        return again

    def lacking_room(self, image: MetadataImage) -> list[PartitionChange]:
        """The partitions that could not be created or opened for lack of space or descriptors, as
        if they were new in `image`."""
        lacking: list[PartitionChange] = []
        for change in self._to_try_again(image, set()):
            error = self._offline[change.tp][1]
            if isinstance(error, StorageError) and error.is_passing:
                lacking.append(change)
        return lacking

    async def commit(
        self, image: MetadataImage, found: Changes, opened: list[Partition]
    ) -> Uncommitted:
        """Add opened partitions, apply new leaders and configs, remove deleted partitions. Each
        partition matches either `image` or the previous image. Internal topics are left to
        `commit_internal`."""
        self._image, self._loaded = image, True
        deleted = [topic for topic in found.topics_deleted if topic.name not in INTERNAL_TOPICS]
        later = Uncommitted(
            self._take_out(deleted),
            [topic for topic in found.topics_deleted if topic.name in INTERNAL_TOPICS],
            [],
        )
        changed: dict[TopicPartition, PartitionImage] = {}
        for change in found.partitions:
            changed[change.tp] = change.new
        for partition in opened:
            name, number = partition.tp
            self._by_topic.setdefault(name, {})[number] = partition
            new = image.partition(name, number)
            if new is not None:
                changed[partition.tp] = new
        # Before the ISRs that come with it: how many of them are enough is what the controller
        # judged them by.
        await self._reconfigure(image, found, opened)
        for tp, new in changed.items():
            if tp.topic in INTERNAL_TOPICS:
                later.changed.append((tp, new))
                continue
            self._commit_one(tp, new, later.gone)
        return later

    def commit_internal(self, later: Uncommitted) -> list[Partition]:
        """The same for internal topics, at once: their coordinators follow without a checkpoint.
        Returns all that is gone, to retire."""
        gone = later.gone + self._take_out(later.deleted)
        for tp, new in later.changed:
            self._commit_one(tp, new, gone)
        return gone

    def _commit_one(self, tp: TopicPartition, new: PartitionImage, gone: list[Partition]) -> None:
        partition = self.find(*tp)
        if partition is not None and self._node_id not in new.replicas:
            del self._by_topic[tp.topic][tp.partition]
            partition.stop()
            gone.append(partition)
        elif partition is not None:
            try:
                partition.apply(new)
            except StorageError as e:
                self.fail_directory(partition.log.log_dir, e)
            if partition.log.mark is not None and is_in_sync_again(self._node_id, new):
                self._start_soon(self._mend, partition, partition.log, new)

    async def _mend(self, partition: Partition, log: Log, image: PartitionImage) -> None:
        """Clear the damage mark of a log that is in sync again. Records cut off are kept if no
        other replica may have them."""
        mark = log.mark
        if mark is None or not self._is_here(partition):
            return
        keep = len(image.isr) < 2 or image.unclean_epoch > mark.last_epoch
        try:
            await offload(partial(log.mend, keep=keep and log.kept_bytes > 0))
        except StorageError as e:
            self.storage_failed(e)
            return
        logger.info("%s is in sync again; it was damaged: %s", partition.tp, mark.damage.words)

    def _take_out(self, deleted: list[TopicImage]) -> list[Partition]:
        """Remove the partitions of deleted topics; lookups no longer find them."""
        gone: list[Partition] = []
        for topic in deleted:
            for one in topic.partitions if self._lost else ():
                tp = TopicPartition(topic.name, one.partition)
                if self._lost.get(tp) == topic.topic_id:
                    del self._lost[tp]
            held = self._by_topic.get(topic.name, {})
            for number, partition in list(held.items()):
                if partition.topic_id == topic.topic_id:
                    gone.append(held.pop(number))
                    partition.stop()
            if not held:
                self._by_topic.pop(topic.name, None)
        return gone

    async def retire(self, gone: list[Partition]) -> None:
        """Rename the logs of deleted partitions away, and have them removed after
        `file.delete.delay.ms`."""
        for start in range(0, len(gone), OPEN_AT_ONCE):
            for path, delay_ms in await offload(self._delete, gone[start : start + OPEN_AT_ONCE]):
                self._start_soon(self._remove, path, delay_ms)

    def flush(self, partition: Partition) -> None:
        """Start a sync of the partition's log; it tells the partition when it is through."""
        self._start_soon(self.sync, partition)

    async def sync(self, partition: Partition) -> None:
        """Sync the partition's log, and tell the partition how far, or less far if the log was
        truncated during the sync."""
        log = partition.log
        end, started = log.state.log_end_offset, self.now()
        try:
            await offload(log.durability.flush, end, directory=log.log_dir.path)
        except StorageError as e:
            self.fail_directory(partition.log.log_dir, e)
            return
        self._log_flushed(self.now() - started)
        partition.flushed(end if log.state.abandoned else min(end, log.durability.durable_offset))

    async def off_loop(
        self, partition: Partition, work: Callable[..., object], *args: object
    ) -> None:
        """Truncate or restart a log in a thread; the caller keeps others away
        (`Partition.busy`)."""
        log = partition.log
        try:
            await offload(work, *args, directory=log.log_dir.path)
        except StorageError as e:
            self.failed(partition, e)
        finally:
            partition.truncated()
            for tell in self.was_cut:
                tell(partition, log.state.log_end_offset)

    def failed(self, partition: Partition, error: StorageError) -> None:
        """The partition's disk failed, and with it every partition in the same log directory."""
        self.fail_directory(partition.log.log_dir, error)

    def dropped(self, partition: Partition) -> None:
        """Have the files of dropped segments removed after `file.delete.delay.ms`: readers may
        still be at them; and the other segments dropped that lie below the start of the log."""
        self._start_soon(self._remove_segments, partition, partition.log.segments.deleted_files)
        if is_behind(partition.log):
            self._start_soon(self._drop_more, partition, partition.log)

    async def _drop_more(self, partition: Partition, log: Log) -> None:
        """Drop some more segments; if that is not possible now, retention finds them later."""
        await trio.lowlevel.checkpoint()
        if partition.log is not log or not self._is_here(partition):
            return
        if partition.busy or partition.offline is not None or log.state.dead is not None:
            return
        try:
            partition.delete_before(log.state.log_start_offset)
        except StorageError as e:
            if not e.undone:
                self.failed(partition, e)

    async def _remove_segments(self, partition: Partition, names: list[str]) -> None:
        await trio.sleep(partition.config.file_delete_delay_ms / 1000)
        log = partition.log
        if not self._is_here(partition):
            return
        try:
            await offload(log.segments.remove_deleted, names, directory=log.log_dir.path)
        except StorageError as e:
            if self._is_here(partition):
                self.fail_directory(log.log_dir, e)

    def _is_here(self, partition: Partition) -> bool:
        """Whether the partition still exists, and its files with it."""
        return self.find(*partition.tp) is partition

    def remove_leftovers(self) -> None:
        """Have the logs removed that were deleted in an earlier life of this broker."""
        for directory in self._dirs.usable:
            for path in list(directory.deleted):
                self._start_soon(self._remove, path, 0)

    def removed(self, path: str, delay_ms: int) -> None:
        """Delete the unneeded log at `path` after `delay_ms`."""
        self._start_soon(self._remove, path, delay_ms)

    async def _remove(self, path: str, delay_ms: int) -> None:
        await trio.sleep(delay_ms / 1000)
        try:
            await offload(self._dirs.remove_deleted, path)
        except StorageError as e:
            logger.error("%s could not be removed: %s", path, e)

    def fail_directory(self, directory: LogDir, error: KafkaError) -> None:
        """The disk of `directory` failed: its partitions go offline. A failed sync is never
        retried."""
        if not directory.failed:
            directory.failed = True
            logger.error("log directory %s is offline: %s", directory.path, error)
            self._directory_failed()
        for partition in self.in_directory(directory):
            if partition.offline is None:
                partition.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        if not self._dirs.usable:
            self._fail_broker(
                f"every log directory has failed, the last was {directory.path}: {error}"
            )

    def storage_failed(self, error: StorageError) -> None:
        """Take the directory that the error names offline, unless its disk is only full."""
        if error.undone or error.is_passing:
            return
        for directory in self._dirs.usable:
            if f"{error.directory}/".startswith(f"{directory.path}/"):
                self.fail_directory(directory, error)

    def _holds(self, topic_id: bytes, tp: TopicPartition) -> bool:
        partition = self.find(*tp)
        return partition is not None and partition.topic_id == topic_id

    def _config(self, image: MetadataImage, topic: str) -> TopicConfig:
        return self._broker_config.topic(image.topic_configs(topic))

    def _open(
        self,
        some: list[PartitionChange],
        configs: dict[str, TopicConfig],
        recovery: _Recovery | None,
    ) -> list[Log | KafkaError]:
        """Open logs in a thread, or in several if that speeds up recovery. Returns each log, or
        the reason it cannot be opened."""
        names = {change.topic.name for change in some}
        log_configs = {name: self._log_config(configs[name]) for name in names}
        progress = None if recovery is None else recovery.progress

        def open_one(change: PartitionChange) -> Log | KafkaError:
            config = log_configs[change.topic.name]
            try:
                with of_one_log("open"):
                    log = self._dirs.open_log(
                        change.tp,
                        change.topic.topic_id,
                        config,
                        self.clock.now_ms(),
                        progress,
                        expected=self._had(change.new),
                    )
                    log.state.epochs  # noqa: B018  read here, not by the loop when the partition is led
                    if log.snapshot_bytes > SNAPSHOT_BYTES_MAX:
                        with suppress(KafkaError):  # raised again when the producers are used
                            log.state.producers  # noqa: B018
            except KafkaError as e:
                return e
            finally:
                if progress is not None:
                    progress.log_done()
            return log

        if recovery is None or not self._dirs.to_recover:
            return [open_one(change) for change in some]
        opened: list[Log | KafkaError] = []
        while len(opened) < len(some):
            opened += _recover_some(open_one, some[len(opened) :], recovery)
        return opened

    def _had(self, image: PartitionImage) -> bool:
        """Whether this broker, which starts, had a log of this partition when it stopped, as far as
        the image tells."""
        members = (*image.isr, *image.elr, *image.last_known_elr)
        return not self._loaded and image.partition_epoch > 0 and self._node_id in members

    def _delete(self, gone: list[Partition]) -> list[tuple[str, int]]:
        """Rename logs for deletion, in a thread. Returns (the new path, how long to keep it)."""
        renamed: list[tuple[str, int]] = []
        for partition in gone:
            try:
                path = self._dirs.delete_log(partition.log)
            except StorageError as e:
                logger.error("%s could not be deleted: %s", partition.tp, e)
                continue
            renamed.append((path, partition.config.file_delete_delay_ms))
        return renamed

    def _log_config(self, config: TopicConfig) -> LogConfig:
        expiration_ms = self._broker_config.producer_id_expiration_ms
        return LogConfig.of(config, producer_id_expiration_ms=expiration_ms)

    def _enter(self, change: PartitionChange, log: Log, config: TopicConfig) -> Partition:
        return Partition(
            change.tp,
            change.topic.topic_id,
            log,
            config,
            node_id=self._node_id,
            purgatory=self._purgatory,
            owner=self,
            high_watermark=self._dirs.high_watermark(change.tp),
        )

    async def _reconfigure(
        self, image: MetadataImage, found: Changes, opened: list[Partition]
    ) -> None:
        """Hand changed keys to the partitions they concern; a broker's keys concern all. Those that
        were opened for `image` have them."""
        topics = {name for kind, name in found.configs if kind == TOPIC}
        if any(kind == BROKER for kind, _ in found.configs):
            topics.update(self._by_topic)
        new = frozenset(opened) if topics else frozenset[Partition]()
        for name in topics:
            held = self._by_topic.get(name)
            if not held:
                continue
            await let_others_run()
            config = self._config(image, name)
            log_config = self._log_config(config)
            for partition in held.values():
                if partition not in new:
                    partition.config = config
                    partition.log.configure(log_config)
                await let_others_run()


def is_in_sync_again(node_id: int, image: PartitionImage) -> bool:
    """Whether a replica that was found damaged is as good as the others. A sole replica stays
    damaged."""
    if len(image.replicas) == 1 or node_id not in image.isr:
        return False
    return len(image.isr) > 1 or image.leader == node_id


def _recover_some(
    open_one: Callable[[PartitionChange], Log | KafkaError],
    changes: list[PartitionChange],
    recovery: _Recovery,
) -> list[Log | KafkaError]:
    """Open the first of these logs, or all of them, in as many threads as the logs before suggest:
    each log, or why it cannot be opened."""

    def open_each(part: list[PartitionChange]) -> tuple[list[Log | KafkaError], float]:
        begun_s = thread_time()
        return [open_one(change) for change in part], thread_time() - begun_s

    progress, threads = recovery
    begun_s, checked_bytes = perf_counter(), progress.checked_bytes
    if threads.count == 1:
        parts = [open_each(changes[:ALONE_AT_ONCE])]
    else:
        each = max(1, len(changes) // (threads.count * TURNS))
        with ThreadPoolExecutor(threads.count, "recover-log") as pool:
            starts = range(0, len(changes), each)
            parts = [*pool.map(open_each, (changes[start : start + each] for start in starts))]
    opened = [log for logs, _ in parts for log in logs]
    threads.round_took(
        len(opened),
        progress.checked_bytes - checked_bytes,
        sum(busy_s for _, busy_s in parts),
        perf_counter() - begun_s,
    )
    return opened
