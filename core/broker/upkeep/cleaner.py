"""Compaction as a background task of the broker: selects the next log, runs the job, and swaps in
the result.

Compaction is pure Python over every record, and a computing thread holds the interpreter for 5 ms
at a time, which would delay every produce of another client by as much (measured: see
`net/compactor.py`). So on a real disk, a separate process does the work, passed in as a
`Compactor`. Otherwise (a disk in memory, the simulator), `ThreadCompactor` does it step by step
through `offload`.

The event loop itself does little. It selects the log (time indexes are read in a thread). It
ensures that the part to be compacted is synced and below the recovery point on the disk: recovery
after a crash treats a gap in the offsets as a loss, so it must never begin below a gap. It swaps in
each finished group between two awaits, and records the progress. If the log was truncated or
deleted in the meantime, the swap is refused, and the round is abandoned.

A log with a damaged batch, or an unexpected error, is skipped until the broker restarts, as in
Apache Kafka; the others continue. A full disk ends the round, since it needs space for one more
segment. A log whose round was abandoned, for any reason, comes after the others.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import trio

from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.broker.upkeep.replace_segments import replace_segments
from pk.core.errors import KafkaError
from pk.core.log.compaction.compact import Cleaned, Done, Step, Worked, clean
from pk.core.log.compaction.job import (
    Cleanable,
    CompactionConfig,
    Job,
    cleanable,
    is_due,
    make_job,
    prepare,
)
from pk.core.log.compaction.keymap import keys_max
from pk.core.log.failures import StorageError, UnexpectedLogError, is_fault, unexpected_errors
from pk.core.log.files import Disk

if TYPE_CHECKING:
    from pk.core.broker.replication.replicas import Replicas
    from pk.core.config import BrokerConfig

logger = logging.getLogger("pk.broker.cleaner")

FIRST_CHECK_S = 15.0
"""The delay of the first check after the start, in seconds, unless `log.cleaner.backoff.ms` is
shorter."""

BUFFER_BYTES_MIN = 4096


class CompactorLost(Exception):
    """The process that compacts is gone, without an error of the disk."""


class Compactor(Protocol):
    """Runs jobs, at `bytes_per_s` bytes a second."""

    def run(self, job: Job, bytes_per_s: float) -> AbstractAsyncContextManager[AsyncIterator[Step]]:
        """Run a job, and yield its steps, except `Worked`. Leaving the context early stops the
        work. The steps raise OSError, KafkaError, CompactorLost."""
        ...


class ThreadCompactor:
    """Runs jobs in threads, on a disk of this process."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    @asynccontextmanager
    async def run(self, job: Job, bytes_per_s: float) -> AsyncGenerator[AsyncIterator[Step]]:
        """See `Compactor`."""
        async with aclosing(self._steps(job, bytes_per_s)) as steps:
            yield steps

    async def _steps(self, job: Job, bytes_per_s: float) -> AsyncGenerator[Step, None]:
        steps = clean(self._disk, job)
        try:
            while (step := await offload(_next, steps, job.directory)) is not None:
                if isinstance(step, Worked):
                    await trio.sleep(step.bytes / bytes_per_s)
                else:
                    yield step
        finally:
            steps.close()


class Cleaner:
    """Compacts the partitions of a broker with `compact` in `cleanup.policy`."""

    def __init__(
        self,
        replicas: Replicas,
        config: Callable[[], BrokerConfig],
        compactor: Compactor,
    ) -> None:
        """`config` returns the current configuration."""
        self._replicas = replicas
        self._config = config
        self._compactor = compactor
        self._uncleanable: set[Partition] = set()
        self._abandoned: dict[Partition, int] = {}
        """Partitions whose last round was abandoned, with the number of consecutive abandoned
        rounds."""

    async def run(self) -> None:
        """Compact logs until cancelled, with `log.cleaner.threads` cleaners at the same time."""
        if not self._config().log_cleaner_enable:
            return
        started = 0
        async with trio.open_nursery() as nursery:
            while True:
                while started < self._config().log_cleaner_threads:
                    nursery.start_soon(self._clean_repeatedly, started)
                    started += 1
                await trio.sleep(self._backoff_s() or FIRST_CHECK_S)

    async def _clean_repeatedly(self, number: int) -> None:
        await trio.sleep(min(self._backoff_s(), FIRST_CHECK_S))
        while True:
            if number >= self._config().log_cleaner_threads or not await self.clean_one():
                await trio.sleep(self._backoff_s())

    def _backoff_s(self) -> float:
        return self._config().log_cleaner_backoff_ms / 1000

    async def clean_one(self) -> bool:
        """Do one round on the log that needs it most. Returns False if no log needs it, or the
        round was abandoned."""
        chosen = await self._filthiest()
        if chosen is None:
            return False
        partition, found = chosen
        log = partition.log
        log.rewriting = True
        try:
            if await self._clean(partition, found):
                self._abandoned.pop(partition, None)
                return True
        except StorageError as e:
            self._failed(partition, e)
        except KafkaError as e:
            self._mark_uncleanable(partition, e)
        except (FileNotFoundError, CompactorLost) as e:
            logger.warning("%s: a round of compaction was abandoned: %s", partition.tp, e)
        except OSError as e:
            undone = not is_fault(e)
            self._failed(
                partition, StorageError(partition.log.state.directory, "compact", e, undone)
            )
        finally:
            log.rewriting = False
        self._abandoned[partition] = self._abandoned.get(partition, 0) + 1
        return False

    def _mark_uncleanable(self, partition: Partition, error: KafkaError) -> None:
        if self._is_here(partition):
            self._uncleanable.add(partition)
            cause = error.__cause__ if isinstance(error, UnexpectedLogError) else None
            logger.error("%s cannot be compacted: %s", partition.tp, error, exc_info=cause)

    async def _filthiest(self) -> tuple[Partition, Cleanable] | None:
        candidates = [
            (partition, compaction_of(partition))
            for partition in self._replicas
            if partition.config.compact
            and partition.offline is None
            and not partition.busy
            and not partition.log.rewriting
            and partition not in self._uncleanable
        ]
        now_ms = self._replicas.clock.now_ms()
        for partition, config in candidates:
            self._roll_overdue(partition, config, now_ms)
        due: list[tuple[Partition, Cleanable]] = []
        for partition, found in await offload(_plan, candidates, now_ms):
            if isinstance(found, UnexpectedLogError):
                self._mark_uncleanable(partition, found)
            elif not partition.log.rewriting and self._is_here(partition):
                due.append((partition, found))
        self._uncleanable = {p for p in self._uncleanable if self._is_here(p)}
        abandoned = self._abandoned = {p: n for p, n in self._abandoned.items() if self._is_here(p)}
        return min(due, key=lambda d: (abandoned.get(d[0], 0), -d[1].dirty_ratio), default=None)

    def _roll_overdue(self, partition: Partition, config: CompactionConfig, now_ms: int) -> None:
        """Roll the active segment of a log whose oldest record has reached
        `max.compaction.lag.ms`."""
        segment = partition.log.state.segments[-1]
        first = segment.first_timestamp
        if segment.size and first is not None and 0 <= first < now_ms - config.max_lag_ms:
            try:
                partition.log.segments.roll(now_ms)
            except StorageError as e:
                self._failed(partition, e)

    async def _clean(self, partition: Partition, found: Cleanable) -> bool:
        """Do one round. Returns whether it was completed."""
        log, directory = partition.log, partition.log.log_dir
        await offload(log.durability.flush, found.end_offset, directory=directory.path)
        if log.durability.recovery_point < found.end_offset:
            return False  # a full disk had no space for indexes or snapshots
        if directory.recovery_points.get(partition.tp, 0) < found.end_offset:
            await offload(directory.write_recovery_points, directory=directory.path)
        if partition.log is not log:
            return False  # the log is in another directory now
        with unexpected_errors("plan a compaction"):
            job = self._job(partition, found)
        if job is None:
            return False
        before = sum(part.size for part in job.parts)
        config = self._config()
        pace = config.log_cleaner_io_max_bytes_per_second / max(config.log_cleaner_threads, 1)
        async with self._compactor.run(job, pace) as steps:
            async for step in steps:
                if not self._is_here(partition):
                    return False
                if isinstance(step, Cleaned):
                    if not await replace_segments(
                        self._replicas, partition, log, step.base_offset, step.replaced, step.sizes
                    ):
                        return False
                elif isinstance(step, Done):
                    log.segments.first_dirty_offset = step.first_dirty_offset
                    await offload(directory.write_cleaner_offsets, directory=directory.path)
                    logger.info(
                        "%s: compacted up to offset %d, from %d to %d bytes (%d keys)",
                        partition.tp,
                        step.first_dirty_offset,
                        before,
                        sum(s.size for s in log.state.segments if s.base_offset < job.end_offset),
                        step.keys,
                    )
        return True

    def _job(self, partition: Partition, found: Cleanable) -> Job | None:
        """Return the job for a partition, or None if it is no longer needed."""
        log, config = partition.log, self._config()
        settings, now_ms = compaction_of(partition), self._replicas.clock.now_ms()
        limit = log.state.last_stable_offset(partition.high_watermark)
        still = cleanable(log, settings, min(limit, found.end_offset), now_ms)
        if still is None or not is_due(still, settings):
            return None
        threads = config.log_cleaner_threads
        keys = keys_max(
            config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor, threads
        )
        buffer_bytes = max(
            config.log_cleaner_io_buffer_size // max(threads, 1) // 2, BUFFER_BYTES_MIN
        )
        return make_job(log, still, settings, now_ms, keys, buffer_bytes)

    def _failed(self, partition: Partition, error: StorageError) -> None:
        if error.undone or error.is_transient:
            logger.warning("%s is not compacted: %s", partition.tp, error)
        elif self._is_here(partition):
            self._replicas.failures.fail_partition(partition, error)

    def _is_here(self, partition: Partition) -> bool:
        return self._replicas.find(*partition.tp) is partition and partition.offline is None


def compaction_of(partition: Partition) -> CompactionConfig:
    """Return the topic's compaction settings."""
    config = partition.config
    return CompactionConfig(
        config.min_cleanable_dirty_ratio,
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
        config.delete_retention_ms,
    )


def _next(steps: Iterator[Step], directory: str) -> Step | None:
    """Return the next step of a job, or None at its end. Runs in a thread."""
    with unexpected_errors(f"compact {directory}"):
        return next(steps, None)


def _plan(
    candidates: list[tuple[Partition, CompactionConfig]], now_ms: int
) -> list[tuple[Partition, Cleanable | UnexpectedLogError]]:
    """Return the logs that are due. Runs in a thread. An unreadable log is left out; its next
    reader gets the error."""
    due: list[tuple[Partition, Cleanable | UnexpectedLogError]] = []
    for partition, config in candidates:
        try:
            with unexpected_errors("find the dirty part of the log"):
                found = cleanable(partition.log, config, partition.high_watermark, now_ms)
                if found is None or not is_due(found, config):
                    continue
                prepare(partition.log, found)
        except UnexpectedLogError as e:
            due.append((partition, e))
            continue
        except (OSError, KafkaError) as e:
            logger.warning("%s: cannot find the dirty part of the log: %s", partition.tp, e)
            continue
        due.append((partition, found))
    return due
