"""Deletes segments according to `retention.ms`, `retention.bytes` and DeleteRecords, every
`log.retention.check.interval.ms`.

A thread finds the segments to delete, since that may read time indexes; they are dropped on the
event loop, a few at a time. Files are removed `file.delete.delay.ms` later, because fetches being
sent still read them. A fetch of a deleted offset gets OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING

import trio

from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import DROPPED_AT_ONCE, Partition
from pk.core.errors import KafkaError
from pk.core.log import retention
from pk.core.log.failures import StorageError, UnexpectedLogError, unexpected_errors
from pk.core.log.retention import Retention

if TYPE_CHECKING:
    from pk.core.broker.replication.replicas import Replicas
    from pk.core.config import BrokerConfig
    from pk.core.log.log import Log

logger = logging.getLogger("pk.broker")

FIRST_CHECK_S = 30.0
"""The delay of the first check after the start, in seconds, unless the interval is shorter:
segments that became due while the broker was down need not wait longer."""

PLANNED_AT_ONCE = 256
"""The number of logs that are checked at a time in a thread."""


class LogRetention:
    """Retention for all partitions of a broker, including internal topics."""

    def __init__(self, replicas: Replicas, config: BrokerConfig) -> None:
        self._replicas = replicas
        self._interval_s = config.log_retention_check_interval_ms / 1000
        self._reported: set[Partition] = set()
        """Partitions for which an unexpected exception was logged."""

    async def run(self) -> None:
        """Delete due segments until cancelled."""
        await trio.sleep(min(self._interval_s, FIRST_CHECK_S))
        while True:
            await self.check()
            await trio.sleep(self._interval_s)

    async def check(self) -> None:
        """Delete the segments that are due now."""
        partitions = [p for p in self._replicas if p.offline is None]
        now_ms = self._replicas.clock.now_ms()
        for first in range(0, len(partitions), PLANNED_AT_ONCE):
            some = partitions[first : first + PLANNED_AT_ONCE]
            requested = [(p, p.log, retention_of(p), p.high_watermark) for p in some]
            await self._check_local(some, now_ms)
            for partition, start in await offload(_plan, requested, now_ms):
                if self._replicas.find(*partition.tp) is partition and partition.offline is None:
                    if isinstance(start, UnexpectedLogError):
                        self._log_error(partition, start)
                    else:
                        await self._drop(partition, start, now_ms)
        self._reported.intersection_update(partitions)

    async def _check_local(self, partitions: list[Partition], now_ms: int) -> None:
        """Drop the local files of segments that are in remote storage too, by
        `local.retention.ms` and `local.retention.bytes`."""
        requested: list[tuple[Partition, Log, Retention, int, int]] = []
        for partition in partitions:
            config, remote = partition.config, partition.remote
            if not copies_to_remote(partition) or remote is None:
                continue
            copied = remote.copied_to(partition.log)
            wanted = Retention(config.local_retention_ms, config.local_retention_bytes)
            requested.append((partition, partition.log, wanted, partition.high_watermark, copied))
        if not requested:
            return
        for partition, start in await offload(_plan_local, requested, now_ms):
            if self._replicas.find(*partition.tp) is not partition or partition.offline is not None:
                continue
            if isinstance(start, UnexpectedLogError):
                self._log_error(partition, start)
            else:
                await self._drop_local(partition, start)

    async def _drop_local(self, partition: Partition, start: int) -> None:
        log = partition.log
        first = log.state.segments[0].base_offset
        try:
            directory = log.log_dir
            if not directory.has_log_start(partition.tp):
                # Otherwise a crash could make the log begin with its first local segment.
                await offload(directory.write_log_start_offsets, directory=directory.path)
            remote = partition.remote
            while (
                log.state.segments[0].base_offset < start <= partition.high_watermark
                and not partition.busy
                and partition.log is log
                and log.state.dead is None
                and remote is not None
                and start <= remote.copied_to(log) + 1
            ):
                bases = [segment.base_offset for segment in log.state.segments]
                due = bisect_left(bases, start)
                partition.delete_local_before(
                    bases[DROPPED_AT_ONCE] if due > DROPPED_AT_ONCE else start
                )
                await trio.lowlevel.checkpoint()
                if self._replicas.find(*partition.tp) is not partition:
                    return
        except StorageError as e:
            if e.undone:
                logger.warning("%s: local retention failed: %s", partition.tp, e)
            else:
                self._replicas.failures.fail_partition(partition, e)
            return
        logger.info(
            "%s: offsets %d to %d are now only in remote storage", partition.tp, first, start - 1
        )

    def _log_error(self, partition: Partition, error: UnexpectedLogError) -> None:
        """Log an unexpected error, with the traceback only the first time, since it occurs in every
        check."""
        cause = error.__cause__ if partition not in self._reported else None
        self._reported.add(partition)
        logger.error("%s: retention skipped: %s", partition.tp, error, exc_info=cause)

    async def _drop(self, partition: Partition, start: int, now_ms: int) -> None:
        log = partition.log
        first = log.state.segments[0].base_offset
        try:
            if partition.busy or start > partition.high_watermark:
                return  # the log was truncated in the meantime
            if start >= log.state.log_end_offset and log.state.segments[-1].size:
                log.segments.roll(now_ms)
            while (
                log.state.segments[0].base_offset < start <= partition.high_watermark
                and not partition.busy
            ):
                bases = [segment.base_offset for segment in log.state.segments]
                due = bisect_left(bases, start)
                partition.delete_before(bases[DROPPED_AT_ONCE] if due > DROPPED_AT_ONCE else start)
                await trio.lowlevel.checkpoint()
                if (
                    self._replicas.find(*partition.tp) is not partition
                    or log.state.dead is not None
                ):
                    return
                if partition.log is not log:
                    return  # the log is in another directory now; the next check handles it
        except StorageError as e:
            if e.undone:
                logger.warning("%s: retention failed: %s", partition.tp, e)
            else:
                self._replicas.failures.fail_partition(partition, e)
            return
        logger.info("%s: retention deleted offsets %d to %d", partition.tp, first, start - 1)


def retention_of(partition: Partition) -> Retention | None:
    """Return the topic's retention settings, or None if it is only compacted, or if its segments
    are copied to remote storage: then their deletion there advances the log start."""
    config = partition.config
    if not config.delete or copies_to_remote(partition):
        return None
    return Retention(config.retention_ms, config.retention_bytes)


def copies_to_remote(partition: Partition) -> bool:
    """Return whether segments of a partition are copied to remote storage."""
    config = partition.config
    return config.remote_storage_enable and not config.remote_log_copy_disable


def _plan_local(
    requested: list[tuple[Partition, Log, Retention, int, int]], now_ms: int
) -> list[tuple[Partition, int | UnexpectedLogError]]:
    """Like `_plan`, for the new local log start offsets."""
    due: list[tuple[Partition, int | UnexpectedLogError]] = []
    for partition, log, wanted, high_watermark, copied in requested:
        try:
            with unexpected_errors("find expired segments"):
                start = retention.local_start_offset(log, wanted, high_watermark, copied, now_ms)
        except UnexpectedLogError as e:
            due.append((partition, e))
            continue
        except (OSError, KafkaError) as e:
            logger.warning(
                "%s: cannot determine which local segments to delete: %s", partition.tp, e
            )
            continue
        if start is not None:
            due.append((partition, start))
    return due


def _plan(
    requested: list[tuple[Partition, Log, Retention | None, int]], now_ms: int
) -> list[tuple[Partition, int | UnexpectedLogError]]:
    """Return the new log start offsets. Runs in a thread. A log that cannot be read is not changed;
    its next reader gets the error."""
    due: list[tuple[Partition, int | UnexpectedLogError]] = []
    for partition, log, wanted, high_watermark in requested:
        try:
            with unexpected_errors("find expired segments"):
                start = retention.start_offset(log, wanted, high_watermark, now_ms)
        except UnexpectedLogError as e:
            due.append((partition, e))
            continue
        except (OSError, KafkaError) as e:
            logger.warning("%s: cannot determine which segments to delete: %s", partition.tp, e)
            continue
        if start is not None:
            due.append((partition, start))
    return due
