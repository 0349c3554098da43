"""Lets a partition take over the segments of a lost cluster (`pk cluster restore`).

It writes new metadata from the objects in the store. The log begins after these segments, with the
leader epochs and the producers of the last one (core/log/remote/restoring.py).
"""

from __future__ import annotations

import logging
from typing import Final

from pk.core.broker.offload import offload
from pk.core.broker.remote.tasks import RemoteTasks, remote_partition
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.remote_log import RemoteLog
from pk.core.broker.replication.replicas import Replicas
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.log.remote.checking import checked_objects
from pk.core.log.remote.metadata import Record, RemotePartition, SegmentState, SegmentUpdate
from pk.core.log.remote.restoring import (
    FoundSegment,
    PartitionPlan,
    found_segment,
    plan_partition,
)
from pk.core.log.remote.segments import RemoteSegments
from pk.core.log.remote.storage import RemoteStorageError, partition_folder
from pk.core.meta.events import RestoredLog

logger = logging.getLogger("pk.remote")

RESTORED_AT_ONCE: Final = 500
"""The number of segments of a lost cluster in one batch of metadata."""


class PartitionRestorer:
    """Restores partitions before this broker leads them."""

    def __init__(self, tasks: RemoteTasks, replicas: Replicas) -> None:
        self._tasks = tasks
        self._replicas = replicas

    def is_due(self, partition: Partition) -> bool:
        """Return whether this broker will lead a partition whose log it must restore first."""
        return partition.leader == self._tasks.state.node_id and partition.awaits_restore

    async def restore(self, partition: Partition, remote: RemoteLog) -> None:
        """Begin the partition's log after the segments of a lost cluster, and lead the partition. A
        later turn repeats a step that failed. Raises KafkaError, RemoteStorageError, OSError."""
        assert partition.image is not None and partition.image.restored is not None
        restored, identity = partition.image.restored, remote_partition(partition)
        await self._tasks.topic.catch_up(identity.key)
        found = await self._tasks.run_on_store(self._stored_segments, identity, restored)
        plan = plan_partition(identity, found)
        if missing := _missing(remote.segments, restored, found, plan):
            raise RemoteStorageError(f"{partition.tp}: {missing}")
        offset = max(plan.end_offset, restored.end_offset) + 1
        start, now_ms = (plan.start_offset if found else offset), self._tasks.clock.now_ms()
        producers = Producers(offset)
        if plan.last is not None:
            tail = await self._tasks.run_on_store(self._tasks.reads.reader.tail, plan.last)
            try:
                producers = Producers.from_snapshot(tail.snapshot, offset, now_ms)
            except CorruptSnapshot as e:
                raise RemoteStorageError(f"{partition.tp}: cannot read its producers: {e}") from e
            producers.forget_below(restored.producer_id_next)
        new = [segment for segment in plan.segments if remote.segments.get(segment.id) is None]
        for at in range(0, len(new), RESTORED_AT_ONCE):
            metadata_records: list[Record] = []
            for one in new[at : at + RESTORED_AT_ONCE]:
                done = SegmentState.COPY_FINISHED
                update = SegmentUpdate(identity, one.id, self._tasks.state.node_id, now_ms, done)
                metadata_records += [one, update]
            await self._tasks.topic.write_all(identity.key, metadata_records)
        epochs = LeaderEpochs(list(plan.lineage))
        epochs.truncate_start(start)
        log = partition.log
        if self._replicas.find(*partition.tp) is not partition or not self.is_due(partition):
            return
        partition.busy = True
        try:
            restart = log.segments.restart_after_remote
            args = (offset, start, epochs, producers, now_ms)
            await self._replicas.tasks.off_loop(partition, restart, *args)
            partition.high_watermark = log.state.log_end_offset
            # Without this, the log would begin at its end after a crash.
            await offload(log.log_dir.write_log_start_offsets, directory=log.log_dir.path)
            partition.is_restored = True
        finally:
            partition.busy = False
            partition.touch()
        logger.info("%s: restored offsets %d to %d", partition.tp, start, offset - 1)
        if self._replicas.find(*partition.tp) is partition and partition.offline is None:
            partition.apply(partition.image)

    def _stored_segments(
        self, partition: RemotePartition, restored: RestoredLog
    ) -> list[FoundSegment]:
        """Return the complete objects of a partition. Reads the store, so it runs in a thread."""
        own, node_id = self._tasks.state.image.cluster_id, self._tasks.state.node_id
        segments: list[FoundSegment] = []
        for cluster_id in dict.fromkeys((*restored.cluster_ids, own)):
            folder = partition_folder(cluster_id, partition)
            for one in checked_objects(self._tasks.storage, records=False, prefix=folder):
                found = found_segment(one, own, node_id)
                if found is not None and found.segment.id not in restored.left_out:
                    segments.append(found)
        return segments


def _missing(
    segments: RemoteSegments, restored: RestoredLog, found: list[FoundSegment], plan: PartitionPlan
) -> str:
    """Return a sentence about what the store lacks of a partition that is being restored; "" if it
    has all. The store may list late, or only a part, and no offset may be given up for that."""
    if segments.is_noted:  # restored before, so many segments may have expired since
        ids = {one.segment.id for one in found}
        for known in segments:
            if known.state is SegmentState.COPY_FINISHED and known.id not in ids:
                return f"the store does not have the segment at offset {known.start_offset}"
        return ""
    if plan.end_offset < restored.end_offset:
        return (
            f"the store has offsets up to {plan.end_offset}, but had them up to "
            f"{restored.end_offset}"
        )
    if plan.start_offset > restored.start_offset >= 0:
        return (
            f"the store has offsets from {plan.start_offset} on, but had them from "
            f"{restored.start_offset} on"
        )
    return ""
