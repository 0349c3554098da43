"""Copies the closed segments of partitions that this broker leads to remote storage.

A failed copy begins again under the same segment id, so that nothing is written to the metadata
while the store is unavailable. It is deleted if the segment is no longer due, or if another broker
leads.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import trio
from msgspec.structs import replace

from pk.core.broker.offload import offload
from pk.core.broker.remote.segment_deleter import SegmentDeleter
from pk.core.broker.remote.tasks import RemoteTasks, remote_partition, still_leads
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.remote_log import RemoteLog, wait_for_quota
from pk.core.broker.replication.replication_quotas import Quota
from pk.core.errors import KafkaError
from pk.core.log.remote.copying import epochs_between, next_to_copy, tail_of
from pk.core.log.remote.metadata import RemoteSegment, SegmentState
from pk.core.log.remote.segment_object import Tail, TopicState, pieces
from pk.core.log.remote.storage import RemoteStorageError
from pk.core.log.segment import Segment
from pk.core.meta.reassignment import target
from pk.core.values import TopicIdPartition, Uuid, new_id

logger = logging.getLogger("pk.remote")


class _UnfinishedCopy(NamedTuple):
    """A copy that is running, or has failed and will be repeated."""

    epoch: int
    record: RemoteSegment
    topic: TopicState | None
    """The topic's state as the object records it. A repeated upload writes the same one, because
    the first upload may still end after it."""


class SegmentCopier:
    """Copies segments of partitions, for one broker."""

    def __init__(self, tasks: RemoteTasks, deleter: SegmentDeleter) -> None:
        self._tasks = tasks
        self._deleter = deleter
        config = tasks.state.config
        self.limiter = trio.CapacityLimiter(config.remote_log_manager_copier_thread_pool_size)
        """Limits how many partitions copy at the same time."""
        self.quota = Quota(
            tasks.clock,
            config.remote_log_manager_copy_max_bytes_per_second,
            config.remote_log_manager_copy_quota_window_num,
            config.remote_log_manager_copy_quota_window_size_seconds,
        )
        self._unfinished: dict[TopicIdPartition, _UnfinishedCopy] = {}

    def forget(self, key: TopicIdPartition) -> None:
        """Forget a failed copy instead of continuing it."""
        self._unfinished.pop(key, None)

    def copying(self, key: TopicIdPartition, epoch: int) -> tuple[Uuid, ...]:
        """Return the segment that this leader is copying, or has failed to copy."""
        begun = self._unfinished.get(key)
        return (begun.record.id,) if begun is not None and begun.epoch == epoch else ()

    async def copy_next(self, partition: Partition, remote: RemoteLog, epoch: int) -> bool:
        """Copy the next segment that is due. Returns False if there is none, or the leadership has
        ended."""
        if not still_leads(partition, epoch) or partition.busy:
            return False
        log = partition.log
        lineage = log.state.epochs.entries
        from_offset = remote.copied_to(log) + 1
        stable = log.state.last_stable_offset(partition.high_watermark)
        found = next_to_copy(log.state.segments, from_offset, stable)
        key = remote_partition(partition).key
        begun = self._unfinished.pop(key, None)
        if found is None:
            return False
        segment, following = found
        await wait_for_quota(self.quota)
        topic = begun.topic if begun is not None else self._topic_state(partition.tp.topic)
        tail = await offload(
            tail_of, log, segment, following - 1, lineage, topic, directory=log.log_dir.path
        )
        epochs = epochs_between(lineage, segment.base_offset, following - 1)
        if not epochs:
            self._tasks.failures.trouble[partition.tp] = (
                "its first records have no leader epoch, so they are not copied"
            )
            return False
        record = RemoteSegment(
            partition=remote_partition(partition),
            id=new_id(self._tasks.random.randbytes),
            start_offset=segment.base_offset,
            end_offset=following - 1,
            broker_id=self._tasks.state.node_id,
            max_timestamp=tail.max_timestamp,
            event_ms=self._tasks.clock.now_ms(),
            epochs=epochs,
            size=tail.size,
            state=SegmentState.COPY_STARTED,
            txn_index_empty=not tail.txn_index,
        )
        if begun is not None and self._is_same(begun, record, epoch, remote):
            record = begun.record
        else:
            await self._tasks.topic.write(record)
        self._unfinished[key] = _UnfinishedCopy(epoch, record, topic)
        try:
            await self._copy(partition, segment, record, tail, epoch)
        except BaseException:
            self._tasks.metrics.copy_errors += 1
            raise
        return True

    @staticmethod
    def _is_same(
        begun: _UnfinishedCopy, record: RemoteSegment, epoch: int, remote: RemoteLog
    ) -> bool:
        """Return whether a failed copy can continue as it began. A new one would begin with
        `record`."""
        known = remote.segments.get(begun.record.id)
        if begun.epoch != epoch or known is None or known.state is not SegmentState.COPY_STARTED:
            return False
        before = begun.record
        return replace(record, id=before.id, event_ms=before.event_ms) == before

    def _topic_state(self, name: str) -> TopicState | None:
        image = self._tasks.state.image
        topic = image.topics.get(name)
        if topic is None or not topic.partitions:
            return None
        return TopicState(
            len(topic.partitions),
            len(target(topic.partitions[0])),
            image.topic_configs(name),
            self._tasks.clock.now_ms(),
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
        await self._tasks.run_on_store(
            self._tasks.storage.put,
            self._tasks.reads.reader.name_of(record),
            pieces(segment.file, tail),
        )
        self.quota.record(record.size)
        del self._unfinished[record.partition.key]
        if not still_leads(partition, epoch):
            await self._discard_copy(record)
            raise RemoteStorageError("the leadership ended during a copy")
        try:
            await self._tasks.topic.set_state(record, SegmentState.COPY_FINISHED)
        except KafkaError:
            remote.is_current = False  # the record may be written; the next turn reads that first
            raise
        known = remote.segments.get(record.id)
        if known is None or known.state is not SegmentState.COPY_FINISHED:
            await self._discard_copy(record)
            raise RemoteStorageError("another leader abandoned this copy")
        self._tasks.metrics.copied_segments += 1
        self._tasks.metrics.copied_bytes += record.size
        logger.info(
            "%s: copied offsets %d to %d to remote storage",
            partition.tp,
            record.start_offset,
            record.end_offset,
        )

    async def _discard_copy(self, record: RemoteSegment) -> None:
        """Delete the remains of a failed copy. If that fails too, a later turn deletes them."""
        try:
            await self._deleter.delete(record)
        except (KafkaError, RemoteStorageError) as e:
            logger.info("%s: a failed copy is deleted later: %s", record.partition.tp, e)
