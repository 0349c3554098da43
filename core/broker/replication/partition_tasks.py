"""Work on partitions' logs that must not run on the event loop, or not now: syncs, truncations, the
removal of dropped segments and of marks of damage. It also provides the other services that a
partition needs from its broker (partition_environment.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from pk.core.broker.clock import Clock
from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.proposals import Proposals
from pk.core.broker.replication.storage_failures import StorageFailures
from pk.core.broker.state import BrokerState
from pk.core.log.failures import StorageError
from pk.core.log.retention import has_segments_below_start
from pk.core.meta.image import BrokerImage, MetadataImage, PartitionImage

if TYPE_CHECKING:
    from pk.core.log.log import Log

logger = logging.getLogger("pk.broker")


class Registry(Protocol):
    """The partitions of this broker (`Replicas`)."""

    image: MetadataImage

    def find(self, topic: str, partition: int) -> Partition | None:
        """Return the partition, or None if this broker does not have it."""
        ...


class PartitionTasks:
    """The `PartitionEnvironment` of a broker's partitions."""

    def __init__(
        self,
        state: BrokerState,
        registry: Registry,
        failures: StorageFailures,
        *,
        clock: Clock,
        start_soon: Callable[..., None],
        proposals: Proposals,
    ) -> None:
        self._registry = registry
        self._failures = failures
        self._clock = clock
        self._start_soon = start_soon
        self._metrics = state.metrics
        self.lag_s = state.config.replica_lag_time_max_ms / 1000
        self.propose = proposals.add
        self.failed = failures.fail_partition
        self.log_truncated: list[Callable[[Partition, int], None]] = []
        """Called with each partition whose log was truncated, and its new log end."""

    def now(self) -> float:
        """Return the time of trio's clock, in seconds."""
        return self._clock.time()

    def broker(self, node_id: int) -> BrokerImage | None:
        """Return a registered broker from the last image that was committed here."""
        return self._registry.image.brokers.get(node_id)

    def flush(self, partition: Partition) -> None:
        """Start a sync of the partition's log; it notifies the partition when it has finished."""
        self._start_soon(self.sync, partition)

    async def sync(self, partition: Partition) -> None:
        """Sync the partition's log, and report the end of the synced records to the partition. This
        is less than the log end at the start if the log was truncated during the sync."""
        log = partition.log
        end, started = log.state.log_end_offset, self.now()
        try:
            await offload(log.durability.flush, end, directory=log.log_dir.path)
        except StorageError as e:
            self._failures.fail_partition(partition, e)
            return
        self._metrics.log_flushed(self.now() - started)
        partition.flushed(end if log.state.abandoned else min(end, log.durability.durable_offset))

    async def off_loop(
        self, partition: Partition, work: Callable[..., object], *args: object
    ) -> None:
        """Truncate or restart a log in a thread. The caller keeps other tasks away
        (`Partition.busy`)."""
        log = partition.log
        try:
            await offload(work, *args, directory=log.log_dir.path)
        except StorageError as e:
            self.failed(partition, e)
        finally:
            partition.truncated()
            for callback in self.log_truncated:
                callback(partition, log.state.log_end_offset)

    def dropped(self, partition: Partition) -> None:
        """Remove the files of dropped segments after `file.delete.delay.ms`, since readers may
        still use them. Also drop the other segments below the log start."""
        self._start_soon(self._remove_segments, partition, partition.log.segments.deleted_files)
        if has_segments_below_start(partition.log):
            self._start_soon(self._drop_more, partition, partition.log)

    async def _drop_more(self, partition: Partition, log: Log) -> None:
        """Drop some more segments. If that is not possible now, retention drops them later."""
        await trio.lowlevel.checkpoint()
        directory, start = log.log_dir, log.state.log_start_offset
        try:
            if not directory.has_noted_start(log.state, start):
                await offload(directory.write_log_start_offsets, directory=directory.path)
            if partition.log is not log or not self._is_here(partition):
                return
            if partition.busy or partition.offline is not None or log.state.dead is not None:
                return
            partition.delete_before(start)
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
                self._failures.fail_directory(log.log_dir, e)

    def clear_damage_soon(self, partition: Partition, image: PartitionImage) -> None:
        """Clear the damage mark of the partition's log, which is in sync again in `image`."""
        self._start_soon(self._clear_damage, partition, partition.log, image)

    async def _clear_damage(self, partition: Partition, log: Log, image: PartitionImage) -> None:
        """Clear the damage mark of a log that is in sync again. Truncated records are kept if no
        other replica may have them."""
        mark = log.mark
        if mark is None or not self._is_here(partition):
            return
        keep = len(image.isr) < 2 or image.unclean_epoch > mark.last_epoch
        try:
            await offload(partial(log.clear_mark, keep=keep and log.kept_bytes > 0))
        except StorageError as e:
            self._failures.report(e)
            return
        logger.info(
            "%s is in sync again; it was damaged: %s", partition.tp, mark.damage.description
        )

    def _is_here(self, partition: Partition) -> bool:
        """Return whether the partition and its files still exist."""
        return self._registry.find(*partition.tp) is partition
