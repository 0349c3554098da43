"""Copies closed segments to remote storage, and deletes expired ones there: Kafka's
RemoteLogManager.

Every `remote.log.manager.task.interval.ms` each partition that this broker leads gets its turn, in
a task of its own. A turn begins with reading all metadata that earlier leaders wrote. A step that
changes something is recorded before and after it is done, so that a later leader finds unfinished
steps:

    copy      COPY_STARTED, the object, COPY_FINISHED       (segment_copier.py)
    delete    DELETE_STARTED, the object is removed, DELETE_FINISHED    (segment_deleter.py)

A turn that failed is repeated after `RETRY_S`; the pause doubles up to `RETRY_S_MAX` (tasks.py).

A partition that takes over the segments of a lost cluster is led when its log is restored
(partition_restorer.py). If remote storage is turned off for a topic, its leaders delete everything
in the store, and each replica then begins with the first record on its own disk. The objects of
deleted topics are deleted, too (deleted_topics.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.remote.deleted_topics import DeletedTopics
from pk.core.broker.remote.metadata_topic import RemoteLogMetadataTopic
from pk.core.broker.remote.partition_restorer import PartitionRestorer
from pk.core.broker.remote.segment_copier import SegmentCopier
from pk.core.broker.remote.segment_deleter import SegmentDeleter
from pk.core.broker.remote.tasks import (
    RemoteMetrics,
    RemoteTasks,
    has_gap,
    remote_partition,
    still_leads,
)
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.remote_log import RemoteLog
from pk.core.broker.replication.replicas import Replicas
from pk.core.log.failures import StorageError
from pk.core.log.remote.storage import RemoteStorageError
from pk.core.meta.image import Changes, MetadataImage
from pk.core.values import TopicIdPartition, TopicPartition

logger = logging.getLogger("pk.remote")

FIRST_S_MAX: Final = 1.0
"""The longest time until the first turn after the start, in seconds."""
SCAN_S: Final = 6 * 3600.0
"""The interval at which a leader looks for objects that are not segments, in seconds: one LIST
request for each 1,000 objects of a partition."""


class RemoteLogManager:
    """Gives the turns of one broker's partitions in `run`."""

    def __init__(
        self, tasks: RemoteTasks, replicas: Replicas, start_soon: Callable[..., None]
    ) -> None:
        """`start_soon` starts a background task."""
        self._tasks = tasks
        self._replicas = replicas
        self._start_soon = start_soon
        self._busy: set[TopicIdPartition] = set()
        """The partitions with a running turn."""
        self.deleter = SegmentDeleter(tasks)
        self.copier = SegmentCopier(tasks, self.deleter)
        self._restorer = PartitionRestorer(tasks, replicas)
        self._deleted_topics = DeletedTopics(tasks, self.deleter, self._busy, start_soon)
        self._epochs: dict[TopicIdPartition, int] = {}
        """The leader epoch in which this broker read all metadata of earlier leaders."""
        self._scanned: dict[TopicIdPartition, float] = {}
        """The last time at which this broker looked for objects that are not segments, in its
        current leadership."""

    async def run(self) -> None:
        """Give turns until cancelled."""
        interval_s = self._tasks.state.config.remote_log_manager_task_interval_ms / 1000
        await trio.sleep(min(interval_s, FIRST_S_MAX))
        while True:
            await self.check()
            await trio.sleep(interval_s)

    async def check(self) -> None:
        """Start the turns that are due, without waiting for their end."""
        self._configure()
        tiered = [p for p in self._replicas if self._is_tiered(p)]
        if not tiered and not self._tasks.topic.partitions:
            return
        if not await self._tasks.topic.create():
            return
        self._tasks.topic.follow(led_partitions(self._tasks.topic))
        for partition in tiered:
            await let_others_run()
            self._attach(partition)
            retry_at = self._tasks.failures.retry_at.get(remote_partition(partition).key, 0.0)
            if self._has_turns(partition) and self._tasks.clock.time() >= retry_at:
                self._begin(partition)
        await self._deleted_topics.check()

    @property
    def fetched_bytes(self) -> int:
        """The number of bytes of records that were fetched from the store."""
        return self._tasks.reads.fetched_bytes

    @property
    def metrics(self) -> RemoteMetrics:
        """Counters of the work."""
        return self._tasks.metrics

    @property
    def trouble(self) -> dict[TopicPartition, str]:
        """The reason why the last turn of a partition did not do all that was due."""
        return self._tasks.failures.trouble

    @property
    def orphans(self) -> dict[TopicPartition, list[str]]:
        """The objects that are not segments, and that the leader's last scan has kept."""
        return self.deleter.orphans

    @property
    def is_idle(self) -> bool:
        """Whether no turn is running."""
        return not self._busy

    def _configure(self) -> None:
        config = self._tasks.state.config
        self.copier.quota.rate = config.remote_log_manager_copy_max_bytes_per_second
        copiers = config.remote_log_manager_copier_thread_pool_size
        deleters = config.remote_log_manager_expiration_thread_pool_size
        self.copier.limiter.total_tokens = copiers
        self.deleter.limiter.total_tokens = deleters
        self._tasks.threads.total_tokens = copiers + deleters
        self._tasks.reads.configure()

    def _is_tiered(self, partition: Partition) -> bool:
        """Return whether the partition may have remote segments. A broker that was down while
        remote storage was turned off knows none."""
        config = partition.config
        if config.remote_storage_enable or config.remote_log_delete_on_disable:
            return True
        return partition.remote is not None and len(partition.remote.segments) > 0

    def image_changed(self, image: MetadataImage, delta: Changes) -> None:
        """Give partitions that are tiered their remote segments, and new leaders their first turn
        (see `ImageListener`)."""
        if not self._tasks.topic.partitions:
            if any(change.new.restored is not None for change in delta.partitions):
                self._start_soon(self.check)
            return
        for change in delta.partitions:
            partition = self._replicas.find(*change.tp)
            if partition is None or not self._is_tiered(partition):
                continue
            self._attach(partition)
            if partition.offline is None and self._restorer.is_due(partition):
                self._begin(partition)
            key = remote_partition(partition).key
            if partition.leads and self._epochs.get(key) != partition.leader_epoch:
                assert partition.remote is not None
                partition.remote.is_current = False
                self._begin(partition)

    def _has_turns(self, partition: Partition) -> bool:
        """Return whether this broker has anything to do for a partition."""
        has_work = partition.leads or self._restorer.is_due(partition) or has_gap(partition)
        return has_work and partition.offline is None

    def _attach(self, partition: Partition) -> None:
        remote = remote_partition(partition)
        if partition.remote is None:
            partition.remote = RemoteLog(self._tasks.topic.segments(remote), self._tasks.reads)
        self._tasks.topic.follow([self._tasks.topic.number_for(remote.key)])

    def _begin(self, partition: Partition) -> None:
        key = remote_partition(partition).key
        if key not in self._busy:
            self._busy.add(key)
            self._start_soon(self._turn, partition)

    async def _turn(self, partition: Partition) -> None:
        key = remote_partition(partition).key
        try:
            await self.serve(partition)
        except Exception as e:  # noqa: BLE001 - it is logged, and tried again
            self._tasks.failures.failed(key, partition.tp, e)
            if isinstance(e, StorageError) and not e.undone:
                self._replicas.failures.fail_partition(partition, e)
            self._start_soon(self._retry, partition)
        else:
            self._tasks.failures.succeeded(key, partition.tp)
        finally:
            self._busy.discard(key)

    async def _retry(self, partition: Partition) -> None:
        """Wait until the partition may try again, and give it another turn."""
        key = remote_partition(partition).key
        retry_at = self._tasks.failures.retry_at.get(key, 0.0)
        await trio.sleep(max(0.0, retry_at - self._tasks.clock.time()))
        is_due = key in self._tasks.failures and self._replicas.find(*partition.tp) is partition
        if is_due and self._has_turns(partition):
            self._begin(partition)

    async def serve(self, partition: Partition) -> None:
        """Do one turn of a partition that this broker leads: copy segments, then delete expired
        ones. Raises KafkaError, RemoteStorageError, OSError."""
        remote = partition.remote
        assert remote is not None
        if has_gap(partition) and not partition.busy:
            start = min(partition.log.state.local_log_start_offset, partition.high_watermark)
            partition.delete_before(start)
        if self._restorer.is_due(partition):
            await self._restorer.restore(partition, remote)
        elif not partition.leads:
            return
        epoch = partition.leader_epoch
        key = remote_partition(partition).key
        if self._epochs.get(key) != epoch or not remote.is_current:
            await self._tasks.topic.catch_up(key)
            await self._find_epochs(partition, remote, epoch)
            if self._epochs.get(key) != epoch:
                self._scanned.pop(key, None)
            self._epochs[key] = epoch
            remote.is_current = True
        self._find_start(partition, remote, epoch)
        if partition.config.remote_storage_enable:
            if not partition.config.remote_log_copy_disable:
                async with self.copier.limiter:
                    while await self.copier.copy_next(partition, remote, epoch):
                        await self._delete_due(partition, remote, epoch)
            else:
                self.copier.forget(key)
            await self._delete_due(partition, remote, epoch)
        else:
            await self.deleter.delete_all(partition, remote, epoch)
        if self._tasks.clock.time() - self._scanned.get(key, -SCAN_S) >= SCAN_S:
            await self.deleter.delete_orphans(partition, remote, epoch)
            self._scanned[key] = self._tasks.clock.time()

    async def _delete_due(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        copying = self.copier.copying(remote_partition(partition).key, epoch)
        await self.deleter.delete_due(partition, remote, epoch, copying)

    async def _find_epochs(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        """Read the leader epochs of remote records from the store if this broker has lost them with
        its file: without them, the segments cannot be found, and would count as unknown. A segment
        has the epochs from the log start at the time of its copy, so several segments may be
        needed. Raises RemoteStorageError."""
        state = partition.log.state
        while (segment := remote.last_before_local(partition.log)) is not None:
            before = state.epochs.entries[:1]
            tail = await self._tasks.run_on_store(self._tasks.reads.reader.tail, segment)
            if not still_leads(partition, epoch) or partition.busy:
                raise RemoteStorageError("the leadership ended before the leader epochs were read")
            logger.warning(
                "%s: leader epochs were lost; those of offsets %d to %d are in remote storage",
                partition.tp,
                segment.start_offset,
                segment.end_offset,
            )
            state.epochs.precede(e for e in tail.epochs if e.start_offset <= segment.end_offset)
            state.epochs.truncate_start(state.log_start_offset)
            if state.epochs.entries[:1] == before:
                return  # the object has other epochs than its metadata

    def _find_start(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        """Advance a new leader's log start to the first existing record. The last leader may have
        deleted earlier ones in the store, and this broker may not know that, or may have forgotten
        it in a crash. Raises KafkaError."""
        if not still_leads(partition, epoch) or partition.busy:
            return
        first = min(remote.first_offset(partition.log), partition.high_watermark)
        if first > partition.log.state.log_start_offset:
            logger.info(
                "%s: the log starts at %d, since the records before it are deleted",
                partition.tp,
                first,
            )
            partition.delete_before(first)


def led_partitions(topic: RemoteLogMetadataTopic) -> list[int]:
    """Return the partitions of the topic that this broker leads."""
    return [number for number in range(topic.partitions) if topic.is_leader(number)]
