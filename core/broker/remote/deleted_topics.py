"""Deletes the remote segments of deleted topics.

This is the task of the leader of their partition of `__remote_log_metadata`, which every broker
knows and which outlives the topics' own leaders. After `LATE_OBJECTS_S`, it deletes objects that
arrived later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.remote.segment_deleter import SegmentDeleter
from pk.core.broker.remote.tasks import RemoteTasks
from pk.core.log.remote.metadata import PartitionDelete, PartitionDeleteState, RemotePartition
from pk.core.log.remote.segments import RemoteSegments
from pk.core.values import TopicIdPartition

logger = logging.getLogger("pk.remote")

DELETION_DELAY_S: Final = 60.0
"""How long a topic must be missing from the image before its remote segments are deleted, in
seconds."""
LATE_OBJECTS_S: Final = 3600.0
"""The time after which the objects of a deleted topic are listed once more, in seconds: no upload
takes longer."""
FORGET_S: Final = 6 * 3600.0
"""The time after that until a broker that does not lead forgets the topic, in seconds."""


class DeletedTopics:
    """The partitions of deleted topics whose remote segments this broker must delete."""

    def __init__(
        self,
        tasks: RemoteTasks,
        deleter: SegmentDeleter,
        busy: set[TopicIdPartition],
        start_soon: Callable[..., None],
    ) -> None:
        """`busy` has the partitions with a running task."""
        self._tasks = tasks
        self._deleter = deleter
        self._busy = busy
        self._start_soon = start_soon
        self._missing_since: dict[TopicIdPartition, float] = {}

    async def check(self) -> None:
        """Delete the segments of deleted topics for which this broker is responsible."""
        now, image = self._tasks.clock.time(), self._tasks.state.image
        for segments in self._tasks.topic.all():
            await let_others_run()
            key = segments.partition.key
            if image.topic_by_id(key.topic_id) is not None:
                self._missing_since.pop(key, None)
                continue
            if segments.delete_state is PartitionDeleteState.FINISHED and not len(segments):
                self._missing_since.pop(key, None)
                self._delete_late_objects(segments)
                continue
            since = self._missing_since.setdefault(key, now)
            if (
                now - since >= DELETION_DELAY_S
                and self._tasks.topic.is_leader(self._tasks.topic.number_for(key))
                and key not in self._busy
            ):
                self._busy.add(key)
                self._start_soon(self._delete_partition, segments.partition)

    def _delete_late_objects(self, segments: RemoteSegments) -> None:
        """Delete objects that arrived after a deletion, when no more can arrive."""
        partition, key = segments.partition, segments.partition.key
        late_s = (self._tasks.clock.now_ms() - segments.deleted_ms) / 1000 - LATE_OBJECTS_S
        if late_s > FORGET_S:
            self._tasks.topic.forget(partition)
            return
        is_responsible = late_s > 0 and self._tasks.topic.is_leader(
            self._tasks.topic.number_for(key)
        )
        if is_responsible and key not in self._busy:
            self._busy.add(key)
            self._start_soon(self._delete_objects, partition)

    async def _delete_objects(self, partition: RemotePartition) -> None:
        try:
            await self._deleter.delete_objects(partition)
            self._tasks.topic.forget(partition)
            self._tasks.failures.succeeded(partition.key, partition.tp)
        except Exception as e:  # noqa: BLE001 - it is logged, and tried again
            self._tasks.failures.failed(partition.key, partition.tp, e)
        finally:
            self._busy.discard(partition.key)

    async def _delete_partition(self, partition: RemotePartition) -> None:
        try:
            await self._tasks.topic.catch_up(partition.key)
            segments = self._tasks.topic.segments(partition)
            for state in (PartitionDeleteState.MARKED, PartitionDeleteState.STARTED):
                if segments.delete_state is None or segments.delete_state < state:
                    await self._mark(partition, state)
            async with self._deleter.limiter:
                for segment in segments:
                    await self._deleter.delete(segment)
            await self._deleter.delete_objects(partition)
            await self._mark(partition, PartitionDeleteState.FINISHED)
            logger.info("%s: deleted from remote storage", partition.tp)
            self._tasks.failures.succeeded(partition.key, partition.tp)
        except Exception as e:  # noqa: BLE001 - it is logged, and tried again
            self._tasks.failures.failed(partition.key, partition.tp, e)
        finally:
            self._busy.discard(partition.key)

    async def _mark(self, partition: RemotePartition, state: PartitionDeleteState) -> None:
        now_ms = self._tasks.clock.now_ms()
        await self._tasks.topic.write(
            PartitionDelete(partition, self._tasks.state.node_id, now_ms, state)
        )
