"""Deletes unneeded data from remote storage: expired segments, segments of a topic whose remote
storage was turned off, and objects that are not segments.

A request whose response was lost, or that arrives after its sender gave up, can leave an object
that is not a segment. Therefore leaders compare the store's list with the metadata, when they
become leaders and every `SCAN_S`, and delete such objects.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import trio

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.remote.tasks import RemoteTasks, has_gap, remote_partition, still_leads
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.remote_log import RemoteLog
from pk.core.log.remote.metadata import RemotePartition, RemoteSegment, SegmentState
from pk.core.log.remote.plan import LogOffsets, due_deletion
from pk.core.log.remote.segment_object import find_tail
from pk.core.log.remote.storage import (
    DamagedObject,
    RemoteObjectMissing,
    SegmentName,
    StoredObject,
    partition_folder,
)
from pk.core.log.retention import Retention
from pk.core.values import TopicPartition, Uuid

logger = logging.getLogger("pk.remote")


class SegmentDeleter:
    """Deletes segments and objects of partitions, for one broker."""

    def __init__(self, tasks: RemoteTasks) -> None:
        self._tasks = tasks
        threads = tasks.state.config.remote_log_manager_expiration_thread_pool_size
        self.limiter = trio.CapacityLimiter(threads)
        """Limits how many partitions delete at the same time."""
        self.orphans: dict[TopicPartition, list[str]] = {}
        """The objects that are not segments, and that the leader's last scan has kept."""

    async def delete_due(
        self, partition: Partition, remote: RemoteLog, epoch: int, copying: tuple[Uuid, ...]
    ) -> None:
        """Delete the segments that have expired, except the ones in `copying`. Raises KafkaError,
        RemoteStorageError."""
        if not still_leads(partition, epoch) or partition.busy:
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
            self._tasks.clock.now_ms(),
            copying,
        )
        if due.start_offset is not None:
            logger.info("%s: the log starts at %d by its retention", partition.tp, due.start_offset)
            partition.delete_before(due.start_offset)
        await self._delete_segments(partition, due.segments, epoch)

    async def delete_all(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        """Delete all segments, since remote storage was turned off for the topic and the log begins
        with its local segments."""
        segments = list(remote.segments)
        async with self.limiter:
            for segment in segments:
                topic_off = not partition.config.remote_storage_enable and not has_gap(partition)
                if not topic_off or not still_leads(partition, epoch):
                    return
                # A segment of a later epoch was copied by a later leader, after remote storage was
                # turned on again.
                if not segment.epochs or segment.epochs[-1].epoch <= epoch:
                    await self.delete(segment)

    async def _delete_segments(
        self, partition: Partition, segments: list[RemoteSegment], epoch: int
    ) -> None:
        async with self.limiter:
            for segment in segments:
                if not still_leads(partition, epoch):
                    return
                await self.delete(segment)

    async def delete(self, segment: RemoteSegment) -> None:
        """Delete a segment: record the start, remove the object, record the end. Raises KafkaError,
        RemoteStorageError."""
        try:
            if segment.state is not SegmentState.DELETE_STARTED:
                await self._tasks.topic.set_state(segment, SegmentState.DELETE_STARTED)
            await self._tasks.run_on_store(
                self._tasks.storage.delete, self._tasks.reads.reader.name_of(segment)
            )
            await self._tasks.topic.set_state(segment, SegmentState.DELETE_FINISHED)
        except BaseException:
            self._tasks.metrics.delete_errors += 1
            raise
        self._tasks.reads.reader.forget(segment.id)
        self._tasks.metrics.deleted_segments += 1

    async def delete_orphans(self, partition: Partition, remote: RemoteLog, epoch: int) -> None:
        """Delete the objects of a partition that are neither its segments nor needed. Raises
        KafkaError, RemoteStorageError."""
        known = remote_partition(partition)
        async with self.limiter:
            listed = await self._listed(known)
            # Every object was announced in the metadata before it was written. So after this, each
            # listed object is a known segment, or was deleted, or is an orphan.
            await self._tasks.topic.catch_up(known.key)
            kept: list[str] = []
            for segment_id, stored in listed.items():
                await let_others_run()
                if not still_leads(partition, epoch):
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
        """Delete an object if the topic is no longer tiered, if the log begins after it, or if its
        offsets are on this disk or in segments. Otherwise keep it: if metadata was lost, it may be
        the only copy. Returns whether it is gone."""
        name, log = stored.name, partition.log
        try:
            tail = await self._tasks.run_on_store(find_tail, self._tasks.storage, name, stored.size)
        except RemoteObjectMissing:
            return True  # the list was outdated
        except DamagedObject:
            return False  # its records are unknown
        start, end = max(tail.start_offset, log.state.log_start_offset), tail.end_offset
        if end < log.state.log_end_offset:
            end = min(end, log.state.local_log_start_offset - 1)
        is_needed = partition.config.remote_storage_enable and start <= end
        if is_needed and not remote.has(log, start, end):
            return False
        await self._tasks.run_on_store(self._tasks.storage.delete, name)
        logger.info("%s: deleted an object that is not a segment: %s", partition.tp, name)
        return True

    async def delete_objects(self, partition: RemotePartition) -> None:
        """Delete every object of a partition. Raises RemoteStorageError."""
        async with self.limiter:
            for stored in (await self._listed(partition)).values():
                await self._tasks.run_on_store(self._tasks.storage.delete, stored.name)

    async def _listed(self, partition: RemotePartition) -> dict[Uuid, StoredObject]:
        """Return the objects of a partition, by the ids of their segments. Raises
        RemoteStorageError."""
        folder = partition_folder(self._tasks.state.cluster_id, partition)

        def listed() -> dict[Uuid, StoredObject]:
            by_id: dict[Uuid, StoredObject] = {}
            for found in self._tasks.storage.list(folder):
                with suppress(ValueError):  # skip other objects in the folder
                    by_id[SegmentName.parse(found.name).id] = found
            return by_id

        return await self._tasks.run_on_store(listed)
