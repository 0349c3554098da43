"""Copies closed segments to remote storage, and deletes expired ones there: Kafka's
RemoteLogManager.

Every `remote.log.manager.task.interval.ms` each partition that this broker leads gets its turn, in
a task of its own. A turn begins with reading all metadata that earlier leaders wrote. A step that
changes something is written before and after it is done, so that a later leader finds unfinished
steps:

    copy      COPY_STARTED, the object, COPY_FINISHED
    delete    DELETE_STARTED, the object is removed, DELETE_FINISHED

A turn that failed is tried again after `RETRY_S`, then ever later, up to `RETRY_S_MAX`. A failed
copy begins again under the same segment id, so that nothing is written while the store is away. A
copy that failed is deleted if the segment is not due any more, or if another broker leads.

A partition that takes over the segments of a lost cluster is led when its log is restored: the
metadata is written anew from the objects in the store, and the log begins behind them, with the
leader epochs and the producers of the last one (core/log/remote/restoring.py).

A request whose answer was lost, or that comes after its sender gave up, can leave an object that is
no segment. So leaders compare the store's list with the metadata, when they become leaders and
every `SCAN_S`, and delete such objects.

If remote storage is turned off for a topic, its leaders delete everything in the store, and each
replica then begins with the first record on its own disk.

The segments of deleted topics are deleted by the leader of their partition of
`__remote_log_metadata`, which every broker knows and which outlives their own leaders. After
`LATE_S` it deletes what came later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

import trio
from msgspec.structs import replace

from pk.core.broker.clock import Clock
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.remote.metadata_topic import RemoteLogMetadataTopic
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.remote_log import RemoteLog, RemoteReads, until_allowed
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.replication.replication_quotas import Quota
from pk.core.broker.state import BrokerState
from pk.core.errors import KafkaError
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.failures import StorageError
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.log.remote.checking import checked_objects
from pk.core.log.remote.copying import epochs_between, next_to_copy, tail_of
from pk.core.log.remote.metadata import (
    PartitionDelete,
    PartitionDeleteState,
    Record,
    RemotePartition,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
)
from pk.core.log.remote.plan import LogOffsets, due_deletion
from pk.core.log.remote.restoring import (
    FoundSegment,
    PartitionPlan,
    found_segment,
    plan_partition,
)
from pk.core.log.remote.segment_object import Tail, TopicState, find_tail, pieces
from pk.core.log.remote.segments import RemoteSegments
from pk.core.log.remote.storage import (
    DamagedObject,
    RemoteObjectMissing,
    RemoteStorage,
    RemoteStorageError,
    SegmentName,
    StoredObject,
    partition_folder,
)
from pk.core.log.retention import Retention
from pk.core.log.segment import Segment
from pk.core.meta.events import RestoredLog
from pk.core.meta.image import Changes, MetadataImage
from pk.core.meta.reassignment import target
from pk.core.values import TopicIdPartition, TopicPartition, Uuid, new_id

logger = logging.getLogger("pk.remote")

FIRST_S_MAX: Final = 1.0
"""The longest time until the first turn after the start."""
RETRY_S: Final = 0.5
"""How long a turn that failed waits first; it doubles with each failure. This and the next two have
the values of Kafka's `remote.log.manager.task.retry.*`."""
RETRY_S_MAX: Final = 30.0
RETRY_JITTER: Final = 0.2
RESTORED_AT_ONCE: Final = 500
"""How many segments of a lost cluster one batch of metadata has."""
SCAN_S: Final = 6 * 3600.0
"""How often a leader looks for objects that are no segments: one LIST request for each 1,000
objects of a partition."""
GONE_S: Final = 60.0
"""How long a topic must be missing from the image before its remote segments are deleted."""
LATE_S: Final = 3600.0
"""When the objects of a deleted topic are listed once more: no upload takes longer."""


class RemoteMetrics:
    """Counters of the manager's work."""

    def __init__(self) -> None:
        self.copied_bytes = 0
        self.copied_segments = 0
        self.copy_errors = 0
        self.deleted_segments = 0
        self.delete_errors = 0


class _Begun(NamedTuple):
    """A copy that is under way, or failed and is tried again."""

    epoch: int
    record: RemoteSegment
    topic: TopicState | None
    """The topic as the object describes it: an upload that ends late must not differ from the next
    one."""


class _Failures:
    """The failures of one partition in a row."""

    def __init__(self, now: float) -> None:
        self.since = now
        self.count = 0
        self.kinds: set[type[Exception]] = set()
        """Those that were logged."""


class RemoteLogManager:
    """The tasks of one broker. `run` starts them."""

    def __init__(
        self,
        storage: RemoteStorage,
        state: BrokerState,
        replicas: Replicas,
        topic: RemoteLogMetadataTopic,
        reads: RemoteReads,
        clock: Clock,
        random: Random,
        start_soon: Callable[..., None],
    ) -> None:
        """`start_soon` runs a background task of the broker's."""
        self._storage = storage
        self._state = state
        self._replicas = replicas
        self._topic = topic
        self._reads = reads
        self._clock = clock
        self._random = random
        self._start_soon = start_soon
        config = state.config
        self.copy_quota = Quota(
            clock,
            config.remote_log_manager_copy_max_bytes_per_second,
            config.remote_log_manager_copy_quota_window_num,
            config.remote_log_manager_copy_quota_window_size_seconds,
        )
        self._copiers = trio.CapacityLimiter(config.remote_log_manager_copier_thread_pool_size)
        self._deleters = trio.CapacityLimiter(config.remote_log_manager_expiration_thread_pool_size)
        self._threads = trio.CapacityLimiter(1)
        self._busy: set[TopicIdPartition] = set()
        """The partitions whose turn is under way."""
        self._epochs: dict[TopicIdPartition, int] = {}
        """The leader epoch in which all metadata of earlier leaders was read."""
        self._scanned: dict[TopicIdPartition, float] = {}
        """When this broker looked for objects that are no segments, in its leadership."""
        self._begun: dict[TopicIdPartition, _Begun] = {}
        self._failures: dict[TopicIdPartition, _Failures] = {}
        self._retry_at: dict[TopicIdPartition, float] = {}
        self._missing_since: dict[TopicIdPartition, float] = {}
        self.metrics = RemoteMetrics()
        self.trouble: dict[TopicPartition, str] = {}
        """Why the last turn of a partition did not do all that was due."""
        self.orphans: dict[TopicPartition, list[str]] = {}
        """The objects that are no segments, and that were kept when a leader last looked."""

    async def run(self) -> None:
        """Give turns until cancelled."""
        interval_s = self._state.config.remote_log_manager_task_interval_ms / 1000
        await trio.sleep(min(interval_s, FIRST_S_MAX))
        while True:
            await self.check()
            await trio.sleep(interval_s)

    async def check(self) -> None:
        """Start the turns that are due, without waiting for their end."""
        self._configure()
        tiered = [p for p in self._replicas if self._is_tiered(p)]
        if not tiered and not self._topic.partitions:
            return
        if not await self._topic.create():
            return
        self._topic.follow(range_of_own(self._topic))
        for partition in tiered:
            await let_others_run()
            self._attach(partition)
            retry_at = self._retry_at.get(remote_partition(partition).key, 0.0)
            if self._has_turns(partition) and self._clock.time() >= retry_at:
                self._begin(partition)
        await self._look_for_deleted()

    @property
    def fetched_bytes(self) -> int:
        """How many bytes of records came from the store."""
        return self._reads.fetched_bytes

    @property
    def is_idle(self) -> bool:
        """Whether no turn is under way."""
        return not self._busy

    def _configure(self) -> None:
        config = self._state.config
        self.copy_quota.rate = config.remote_log_manager_copy_max_bytes_per_second
        self._copiers.total_tokens = config.remote_log_manager_copier_thread_pool_size
        self._deleters.total_tokens = config.remote_log_manager_expiration_thread_pool_size
        self._threads.total_tokens = self._copiers.total_tokens + self._deleters.total_tokens
        self._reads.configure()

    def _is_tiered(self, partition: Partition) -> bool:
        """Whether it may have remote segments. A broker that was down while remote storage was
        turned off knows none."""
        config = partition.config
        if config.remote_storage_enable or config.remote_log_delete_on_disable:
            return True
        return partition.remote is not None and len(partition.remote.segments) > 0

    def image_changed(self, image: MetadataImage, found: Changes) -> None:
        """See `ImageListener`: partitions that are tiered get their remote segments, and new
        leaders their first turn."""
        if not self._topic.partitions:
            if any(change.new.restored is not None for change in found.partitions):
                self._start_soon(self.check)
            return
        for change in found.partitions:
            partition = self._replicas.find(*change.tp)
            if partition is None or not self._is_tiered(partition):
                continue
            self._attach(partition)
            if partition.offline is None and self._is_restored(partition):
                self._begin(partition)
            key = remote_partition(partition).key
            if partition.leads and self._epochs.get(key) != partition.leader_epoch:
                assert partition.remote is not None
                partition.remote.is_current = False
                self._begin(partition)

    def _is_restored(self, partition: Partition) -> bool:
        """Whether this broker will lead a partition whose log it must restore first."""
        return partition.leader == self._state.node_id and partition.awaits_restore

    def _has_turns(self, partition: Partition) -> bool:
        """Whether this broker has anything to do for a partition."""
        mine = partition.leads or self._is_restored(partition) or _has_gap(partition)
        return mine and partition.offline is None

    def _attach(self, partition: Partition) -> None:
        remote = remote_partition(partition)
        if partition.remote is None:
            partition.remote = RemoteLog(self._topic.segments(remote), self._reads)
        self._topic.follow([self._topic.number_for(remote.key)])

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
            self._failed(key, partition.tp, e)
            if isinstance(e, StorageError) and not e.undone:
                self._replicas.failures.fail_partition(partition, e)
            self._start_soon(self._retry, partition)
        else:
            self._worked(key, partition.tp)
        finally:
            self._busy.discard(key)

    async def _retry(self, partition: Partition) -> None:
        """Give a partition another turn when it may try again."""
        key = remote_partition(partition).key
        await trio.sleep(max(0.0, self._retry_at.get(key, 0.0) - self._clock.time()))
        is_due = key in self._failures and self._replicas.find(*partition.tp) is partition
        if is_due and self._has_turns(partition):
            self._begin(partition)

    def _failed(self, key: TopicIdPartition, tp: TopicPartition, error: Exception) -> None:
        """Note a failure. The log gets the first of each kind among failures in a row."""
        now, why = self._clock.time(), str(error) or repr(error)
        failures = self._failures.setdefault(key, _Failures(now))
        wait_s = min(RETRY_S * 2.0 ** min(failures.count, 20), RETRY_S_MAX)
        jitter = 1 + RETRY_JITTER * (2 * self._random.random() - 1)
        self._retry_at[key] = now + wait_s * jitter
        failures.count += 1
        self.trouble[tp] = why
        if type(error) in failures.kinds:
            return
        failures.kinds.add(type(error))
        if isinstance(error, KafkaError | RemoteStorageError | OSError):
            logger.warning("%s: remote storage: %s", tp, why)
        else:
            logger.error("%s: a task of remote storage failed", tp, exc_info=error)

    def _worked(self, key: TopicIdPartition, tp: TopicPartition) -> None:
        """Note that all that was due was done."""
        self.trouble.pop(tp, None)
        self._retry_at.pop(key, None)
        failures = self._failures.pop(key, None)
        if failures is not None:
            took_s = self._clock.time() - failures.since
            logger.info(
                "%s: remote storage works again, after %d failures in %.0f s",
                tp,
                failures.count,
                took_s,
            )

    async def serve(self, partition: Partition) -> None:
        """One turn of a partition that this broker leads: copy, then delete expired segments.
        Raises KafkaError, RemoteStorageError, OSError."""
        remote = partition.remote
        assert remote is not None
        if _has_gap(partition) and not partition.busy:
            start = min(partition.log.state.local_log_start_offset, partition.high_watermark)
            partition.delete_before(start)
        if self._is_restored(partition):
            await self._restore(partition, remote)
        elif not partition.leads:
            return
        epoch = partition.leader_epoch
        key = remote_partition(partition).key
        if self._epochs.get(key) != epoch or not remote.is_current:
            await self._topic.catch_up(key)
            await self._find_epochs(partition, remote, epoch)
            if self._epochs.get(key) != epoch:
                self._scanned.pop(key, None)
            self._epochs[key] = epoch
            remote.is_current = True
        self._find_start(partition, remote, epoch)
        if partition.config.remote_storage_enable:
            if not partition.config.remote_log_copy_disable:
                async with self._copiers:
                    while await self._copy_next(partition, remote, epoch):
                        await self._delete_due(partition, remote, epoch)
            else:
                self._begun.pop(key, None)
            await self._delete_due(partition, remote, epoch)
        else:
            await self._delete_all(partition, remote, epoch)
        if self._clock.time() - self._scanned.get(key, -SCAN_S) >= SCAN_S:
            await self._delete_orphans(partition, remote, epoch)
            self._scanned[key] = self._clock.time()

    @staticmethod
    def _still(partition: Partition, epoch: int) -> bool:
        return partition.leads and partition.leader_epoch == epoch and partition.offline is None

    async def _find_epochs(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        """Read the leader epochs of remote records from the store if this broker has lost them with
        its file: without them nobody finds the segments, and they would count as unknown. A segment
        has the epochs from where the log began when it was copied, so several may be needed. Raises
        RemoteStorageError."""
        state = partition.log.state
        while (segment := remote.last_before_local(partition.log)) is not None:
            before = state.epochs.entries[:1]
            tail = await offload(self._reads.reader.tail, segment, limiter=self._threads)
            if not self._still(partition, epoch) or partition.busy:
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
                return  # the object has other epochs than its note says

    def _find_start(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        """Let the log of a new leader begin with the first record that there is. The last leader
        may have deleted others in the store, and this broker has not heard of that, or forgot it in
        a crash. Raises KafkaError."""
        if not self._still(partition, epoch) or partition.busy:
            return
        first = min(remote.first_offset(partition.log), partition.high_watermark)
        if first > partition.log.state.log_start_offset:
            logger.info(
                "%s: the log starts at %d, since the records before it are deleted",
                partition.tp,
                first,
            )
            partition.delete_before(first)

    # --- copying ---

    async def _copy_next(self, partition: Partition, remote: RemoteLog, epoch: int) -> bool:
        """Copy the next segment that is due; False if there is none, or the leadership is over."""
        if not self._still(partition, epoch) or partition.busy:
            return False
        log = partition.log
        lineage = log.state.epochs.entries
        from_offset = remote.copied_to(log) + 1
        stable = log.state.last_stable_offset(partition.high_watermark)
        found = next_to_copy(log.state.segments, from_offset, stable)
        key = remote_partition(partition).key
        begun = self._begun.pop(key, None)
        if found is None:
            return False
        segment, following = found
        await until_allowed(self.copy_quota)
        topic = begun.topic if begun is not None else self._topic_state(partition.tp.topic)
        tail = await offload(
            tail_of, log, segment, following - 1, lineage, topic, directory=log.log_dir.path
        )
        epochs = epochs_between(lineage, segment.base_offset, following - 1)
        if not epochs:
            self.trouble[partition.tp] = (
                "its first records have no leader epoch, so they are not copied"
            )
            return False
        record = RemoteSegment(
            partition=remote_partition(partition),
            id=new_id(self._random.randbytes),
            start_offset=segment.base_offset,
            end_offset=following - 1,
            broker_id=self._state.node_id,
            max_timestamp=tail.max_timestamp,
            event_ms=self._clock.now_ms(),
            epochs=epochs,
            size=tail.size,
            state=SegmentState.COPY_STARTED,
            txn_index_empty=not tail.txn_index,
        )
        if begun is not None and self._is_same(begun, record, epoch, remote):
            record = begun.record
        else:
            await self._topic.write(record)
        self._begun[key] = _Begun(epoch, record, topic)
        try:
            await self._copy(partition, segment, record, tail, epoch)
        except BaseException:
            self.metrics.copy_errors += 1
            raise
        return True

    @staticmethod
    def _is_same(begun: _Begun, record: RemoteSegment, epoch: int, remote: RemoteLog) -> bool:
        """Whether a failed copy can go on as it began. A new one would begin with `record`."""
        known = remote.segments.get(begun.record.id)
        if begun.epoch != epoch or known is None or known.state is not SegmentState.COPY_STARTED:
            return False
        before = begun.record
        return replace(record, id=before.id, event_ms=before.event_ms) == before

    def _topic_state(self, name: str) -> TopicState | None:
        image = self._state.image
        topic = image.topics.get(name)
        if topic is None or not topic.partitions:
            return None
        return TopicState(
            len(topic.partitions),
            len(target(topic.partitions[0])),
            image.topic_configs(name),
            self._clock.now_ms(),
        )

    async def _copy(
        self,
        partition: Partition,
        segment: Segment,
        record: RemoteSegment,
        tail: Tail,
        epoch: int,
    ) -> None:
        remote = partition.remote
        assert remote is not None
        await offload(
            self._storage.put,
            self._reads.reader.name_of(record),
            pieces(segment.file, tail),
            limiter=self._threads,
        )
        self.copy_quota.passed(record.size)
        del self._begun[record.partition.key]
        if not self._still(partition, epoch):
            await self._give_up(record)
            raise RemoteStorageError("the leadership ended during a copy")
        try:
            await self._set(record, SegmentState.COPY_FINISHED)
        except KafkaError:
            remote.is_current = False  # it may be written: the next turn finds out first
            raise
        known = remote.segments.get(record.id)
        if known is None or known.state is not SegmentState.COPY_FINISHED:
            await self._give_up(record)
            raise RemoteStorageError("another leader abandoned this copy")
        self.metrics.copied_segments += 1
        self.metrics.copied_bytes += record.size
        logger.info(
            "%s: copied offsets %d to %d to remote storage",
            partition.tp,
            record.start_offset,
            record.end_offset,
        )

    async def _give_up(self, record: RemoteSegment) -> None:
        """Delete what a failed copy may have left. If that fails too, a later turn does it."""
        try:
            await self._delete(record)
        except (KafkaError, RemoteStorageError) as e:
            logger.info("%s: a failed copy is deleted later: %s", record.partition.tp, e)

    async def _set(self, segment: RemoteSegment, state: SegmentState) -> None:
        now_ms, node_id = self._clock.now_ms(), self._state.node_id
        await self._topic.write(
            SegmentUpdate(segment.partition, segment.id, node_id, now_ms, state)
        )

    # --- restoring ---

    async def _restore(self, partition: Partition, remote: RemoteLog) -> None:
        """Let a partition begin with the segments of a lost cluster, and lead it. A step that fails
        is done again in a later turn. Raises KafkaError, RemoteStorageError, OSError."""
        assert partition.image is not None and partition.image.restored is not None
        restored, place = partition.image.restored, remote_partition(partition)
        await self._topic.catch_up(place.key)
        found = await offload(self._stored_segments, place, restored, limiter=self._threads)
        plan = plan_partition(place, found)
        if missing := _missing(remote.segments, restored, found, plan):
            raise RemoteStorageError(f"{partition.tp}: {missing}")
        offset = max(plan.end_offset, restored.end_offset) + 1
        start, now_ms = (plan.start_offset if found else offset), self._clock.now_ms()
        producers = Producers(offset)
        if plan.last is not None:
            tail = await offload(self._reads.reader.tail, plan.last, limiter=self._threads)
            try:
                producers = Producers.from_snapshot(tail.snapshot, offset, now_ms)
            except CorruptSnapshot as e:
                raise RemoteStorageError(f"{partition.tp}: the state of its producers: {e}") from e
            producers.forget_below(restored.producer_id_next)
        new = [segment for segment in plan.segments if remote.segments.get(segment.id) is None]
        for at in range(0, len(new), RESTORED_AT_ONCE):
            notes: list[Record] = []
            for one in new[at : at + RESTORED_AT_ONCE]:
                done = SegmentState.COPY_FINISHED
                update = SegmentUpdate(place, one.id, self._state.node_id, now_ms, done)
                notes += [one, update]
            await self._topic.write_all(place.key, notes)
        epochs = LeaderEpochs(list(plan.lineage))
        epochs.truncate_start(start)
        log = partition.log
        if self._replicas.find(*partition.tp) is not partition or not self._is_restored(partition):
            return
        partition.busy = True
        try:
            restart = log.segments.restart_behind_remote
            args = (offset, start, epochs, producers, now_ms)
            await self._replicas.tasks.off_loop(partition, restart, *args)
            partition.high_watermark = log.state.log_end_offset
            # Otherwise the log would begin at its end after a crash.
            await offload(log.log_dir.write_log_start_offsets, directory=log.log_dir.path)
        finally:
            partition.busy = False
            partition.touch()
        logger.info("%s: restored offsets %d to %d", partition.tp, start, offset - 1)
        if self._replicas.find(*partition.tp) is partition and partition.offline is None:
            partition.apply(partition.image)

    def _stored_segments(
        self, partition: RemotePartition, restored: RestoredLog
    ) -> list[FoundSegment]:
        """The whole objects of a partition. Reads the store: in a thread."""
        own, node_id = self._state.image.cluster_id, self._state.node_id
        segments: list[FoundSegment] = []
        for cluster_id in dict.fromkeys((*restored.cluster_ids, own)):
            folder = partition_folder(cluster_id, partition)
            for one in checked_objects(self._storage, records=False, prefix=folder):
                found = found_segment(one, own, node_id)
                if found is not None and found.segment.id not in restored.left_out:
                    segments.append(found)
        return segments

    # --- deleting ---

    def _copying(self, key: TopicIdPartition, epoch: int) -> tuple[Uuid, ...]:
        """The segment that this leader is copying, or tries to."""
        begun = self._begun.get(key)
        return (begun.record.id,) if begun is not None and begun.epoch == epoch else ()

    async def _delete_due(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        if not self._still(partition, epoch) or partition.busy:
            return
        log, config = partition.log, partition.config
        copied = remote.copied_to(log)
        due = due_deletion(
            remote.segments,
            LogOffsets(
                log.state.log_start_offset,
                log.state.log_end_offset,
                partition.high_watermark,
                log.state.epochs.entries,
                sum(s.size for s in log.state.segments if s.base_offset > copied),
            ),
            Retention(config.retention_ms, config.retention_bytes) if config.delete else None,
            self._clock.now_ms(),
            self._copying(remote_partition(partition).key, epoch),
        )
        if due.start_offset is not None:
            logger.info("%s: the log starts at %d by its retention", partition.tp, due.start_offset)
            partition.delete_before(due.start_offset)
        await self._delete_all_of(partition, due.segments, epoch)

    async def _delete_all(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        """Remote storage was turned off for the topic: the log begins with its local segments, and
        nothing of it stays in the store."""
        segments = list(remote.segments)
        async with self._deleters:
            for segment in segments:
                off = not partition.config.remote_storage_enable and not _has_gap(partition)
                if not off or not self._still(partition, epoch):
                    return
                # Otherwise a later leader copied it, when it was turned on again.
                if not segment.epochs or segment.epochs[-1].epoch <= epoch:
                    await self._delete(segment)

    async def _delete_all_of(
        self, partition: Partition, segments: list[RemoteSegment], epoch: int
    ) -> None:
        async with self._deleters:
            for segment in segments:
                if not self._still(partition, epoch):
                    return
                await self._delete(segment)

    async def _delete(self, segment: RemoteSegment) -> None:
        """Delete a segment: note it, remove the object, note that it is gone. Raises KafkaError,
        RemoteStorageError."""
        try:
            if segment.state is not SegmentState.DELETE_STARTED:
                await self._set(segment, SegmentState.DELETE_STARTED)
            await offload(
                self._storage.delete, self._reads.reader.name_of(segment), limiter=self._threads
            )
            await self._set(segment, SegmentState.DELETE_FINISHED)
        except BaseException:
            self.metrics.delete_errors += 1
            raise
        self._reads.reader.forget(segment.id)
        self.metrics.deleted_segments += 1

    async def _delete_orphans(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        """Delete the objects of a partition that are no segments of it, and that nobody needs.
        Raises KafkaError, RemoteStorageError."""
        known = remote_partition(partition)
        async with self._deleters:
            listed = await self._listed(known)
            # Every object was announced in the metadata before it was written, so after the list
            # was made all of them are known, or were deleted.
            await self._topic.catch_up(known.key)
            kept: list[str] = []
            for segment_id, stored in listed.items():
                await let_others_run()
                if not self._still(partition, epoch):
                    return
                is_segment = remote.segments.get(segment_id) is not None
                if not is_segment and not await self._delete_orphan(partition, remote, stored):
                    kept.append(stored.name)
        self.orphans.pop(partition.tp, None)
        if kept:
            self.orphans[partition.tp] = kept

    async def _delete_orphan(
        self, partition: Partition, remote: RemoteLog, stored: StoredObject
    ) -> bool:
        """Delete an object if the topic is not tiered any more, or the log begins behind it, or its
        offsets are on this disk or in segments. Otherwise it stays: if metadata was lost, it may be
        the only copy. Returns whether it is gone."""
        name, log = stored.name, partition.log
        try:
            tail = await offload(find_tail, self._storage, name, stored.size, limiter=self._threads)
        except RemoteObjectMissing:
            return True  # the list was late
        except DamagedObject:
            return False  # its records are unknown
        start, end = max(tail.start_offset, log.state.log_start_offset), tail.end_offset
        if end < log.state.log_end_offset:
            end = min(end, log.state.local_log_start_offset - 1)
        is_needed = partition.config.remote_storage_enable and start <= end
        if is_needed and not remote.has(log, start, end):
            return False
        await offload(self._storage.delete, name, limiter=self._threads)
        logger.info("%s: deleted an object that is not a segment: %s", partition.tp, name)
        return True

    async def _listed(self, partition: RemotePartition) -> dict[Uuid, StoredObject]:
        """The objects of a partition, by the ids of their segments. Raises RemoteStorageError."""
        folder = partition_folder(self._state.cluster_id, partition)

        def listed() -> dict[Uuid, StoredObject]:
            by_id: dict[Uuid, StoredObject] = {}
            for found in self._storage.list(folder):
                with suppress(ValueError):  # something else is in the folder
                    by_id[SegmentName.parse(found.name).id] = found
            return by_id

        return await offload(listed, limiter=self._threads)

    # --- deleted topics ---

    async def _look_for_deleted(self) -> None:
        """Delete the segments of topics that are gone, for which this broker is responsible."""
        now, image = self._clock.time(), self._state.image
        for segments in self._topic.all():
            await let_others_run()
            key = segments.partition.key
            if image.topic_by_id(key.topic_id) is not None:
                self._missing_since.pop(key, None)
                continue
            if segments.delete_state is PartitionDeleteState.FINISHED and not len(segments):
                self._missing_since.pop(key, None)
                self._look_once_more(segments)
                continue
            since = self._missing_since.setdefault(key, now)
            if (
                now - since >= GONE_S
                and self._topic.is_leader(self._topic.number_for(key))
                and key not in self._busy
            ):
                self._busy.add(key)
                self._start_soon(self._delete_partition, segments.partition)

    def _look_once_more(self, segments: RemoteSegments) -> None:
        """Delete what came after a deletion, when nothing can come any more."""
        partition, key = segments.partition, segments.partition.key
        late_s = (self._clock.now_ms() - segments.deleted_ms) / 1000 - LATE_S
        if late_s > SCAN_S:
            self._topic.forget(partition)
            return
        mine = late_s > 0 and self._topic.is_leader(self._topic.number_for(key))
        if mine and key not in self._busy:
            self._busy.add(key)
            self._start_soon(self._delete_late, partition)

    async def _delete_late(self, partition: RemotePartition) -> None:
        try:
            await self._delete_objects(partition)
            self._topic.forget(partition)
            self._worked(partition.key, partition.tp)
        except Exception as e:  # noqa: BLE001 - it is logged, and tried again
            self._failed(partition.key, partition.tp, e)
        finally:
            self._busy.discard(partition.key)

    async def _delete_objects(self, partition: RemotePartition) -> None:
        """Delete every object of a partition. Raises RemoteStorageError."""
        async with self._deleters:
            for stored in (await self._listed(partition)).values():
                await offload(self._storage.delete, stored.name, limiter=self._threads)

    async def _delete_partition(self, partition: RemotePartition) -> None:
        try:
            await self._topic.catch_up(partition.key)
            segments = self._topic.segments(partition)
            for state in (PartitionDeleteState.MARKED, PartitionDeleteState.STARTED):
                if segments.delete_state is None or segments.delete_state < state:
                    await self._mark(partition, state)
            async with self._deleters:
                for segment in segments:
                    await self._delete(segment)
            await self._delete_objects(partition)
            await self._mark(partition, PartitionDeleteState.FINISHED)
            logger.info("%s: deleted from remote storage", partition.tp)
            self._worked(partition.key, partition.tp)
        except Exception as e:  # noqa: BLE001 - it is logged, and tried again
            self._failed(partition.key, partition.tp, e)
        finally:
            self._busy.discard(partition.key)

    async def _mark(self, partition: RemotePartition, state: PartitionDeleteState) -> None:
        now_ms = self._clock.now_ms()
        await self._topic.write(PartitionDelete(partition, self._state.node_id, now_ms, state))


def _missing(
    segments: RemoteSegments, restored: RestoredLog, found: list[FoundSegment], plan: PartitionPlan
) -> str:
    """A sentence about what the store lacks of a partition that is restored; "" if it has all. The
    store may list late, or answer in part, and no offset is given up for that."""
    if segments.is_noted:  # it is restored again, and much may have expired since
        ids = {one.segment.id for one in found}
        for known in segments:
            if known.state is SegmentState.COPY_FINISHED and known.id not in ids:
                return f"the store does not have the segment at offset {known.start_offset}"
        return ""
    if plan.end_offset < restored.end_offset:
        return (
            f"the store has offsets up to {plan.end_offset}, no longer up to {restored.end_offset}"
        )
    if plan.start_offset > restored.start_offset >= 0:
        return (
            f"the store has offsets from {plan.start_offset} on, no longer from "
            f"{restored.start_offset} on"
        )
    return ""


def _has_gap(partition: Partition) -> bool:
    """Whether the log begins with records that were only in remote storage, which was turned off
    for the topic."""
    state = partition.log.state
    is_tiered = partition.config.remote_storage_enable
    return not is_tiered and state.log_start_offset < state.local_log_start_offset


def remote_partition(partition: Partition) -> RemotePartition:
    """A partition as remote storage knows it."""
    return RemotePartition(partition.tp.topic, partition.topic_id, partition.tp.partition)


def range_of_own(topic: RemoteLogMetadataTopic) -> list[int]:
    """The partitions of the topic that this broker leads."""
    return [number for number in range(topic.partitions) if topic.is_leader(number)]
