"""Finds damage in closed segments before a reader encounters it, and starts the repair: once per
`pk.log.scrub.interval.ms`, no faster than `pk.log.scrub.bytes.per.second`.

A disk may flip a bit in old data. A read detects that (core/log/checked_bytes.py), but old records
may not be read until the other replicas are gone. So each log is read in turn, starting with the
one that has waited longest; the times are recorded in each log directory
(`pk-scrub-time-checkpoint`). A damaged log is recorded as never read, so that the next start reads
it first. A segment in which a read has found damage is checked at once, regardless of the interval.

The repair of a damaged segment depends on the partition's leader:

- Another broker leads: the segment is fetched from there (segment_repair.py).
- This broker leads: it reports to the controller, which moves the leadership to an in-sync replica
  without reported damage (core/meta/unclean_recovery.py). Then this one follows.
- There is no such replica: the segment stays damaged, and the repair is retried later.

The controller keeps track of damaged segments: `pk doctor` shows them. The replica stays in the
ISR, because the end of its log is intact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.peers import Peers
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replica_logs import ReplicaLogs
from pk.core.broker.state import BrokerState
from pk.core.broker.upkeep.bandwidth import Bandwidth
from pk.core.broker.upkeep.segment_repair import NotRepaired, SegmentRepair
from pk.core.errors import KafkaError
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.failures import StorageError, is_fault, unexpected_errors
from pk.core.log.log import Log
from pk.core.log.log_dir import LogDir
from pk.core.log.scrub import Damaged, find_damage
from pk.core.log.segment import Segment

if TYPE_CHECKING:
    from pk.core.broker.replication.replicas import Replicas
    from pk.core.config import BrokerConfig

logger = logging.getLogger("pk.broker.scrubber")

FIRST_CHECK_S: Final = 30.0
"""The delay of the first check after the start, in seconds, unless the interval is shorter."""
CHECK_S: Final = 60.0
"""The interval at which logs that are due are looked for, and the times of read logs are stored, in
seconds."""
RETRY_S_MIN: Final = 1.0
"""The first pause after a repair that was not possible, in seconds; it doubles."""
RETRY_S_MAX: Final = 60.0


class Scrubber:
    """Checks and repairs closed segments. One per broker; `run` is its task."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        peers: Peers,
        replica_logs: ReplicaLogs,
        config: Callable[[], BrokerConfig],
    ) -> None:
        """`config` returns the current configuration."""
        self._state = state
        self._replicas = replicas
        self._reports = replica_logs
        self._config = config
        self._bandwidth = Bandwidth(lambda: config().pk_log_scrub_bytes_per_second)
        self._repair = SegmentRepair(state, replicas, peers, self._bandwidth)
        self._suspects: dict[Partition, None] = {}
        self._suspected = trio.Event()
        self._damaged: dict[Partition, _Retry] = {}
        self._found = trio.Event()
        replicas.damage_found.append(self.suspect)

    @property
    def _metrics(self) -> BrokerMetrics:
        return self._state.metrics

    def suspect(self, partition: Partition) -> None:
        """Queue the log for a check, because a read has found damage in it."""
        if _suspected(partition.log):
            self._suspects[partition] = None
            self._suspected.set()

    async def run(self) -> None:
        """Check and repair until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._scrub)
            nursery.start_soon(self._scrub_suspects)
            nursery.start_soon(self._repair_all)

    # --- checking ---

    async def _scrub(self) -> None:
        await trio.sleep(min(self._interval_ms / 1000 or FIRST_CHECK_S, FIRST_CHECK_S))
        while True:
            await self.check()
            await trio.sleep(min(self._interval_ms / 1000 or CHECK_S, CHECK_S))

    @property
    def _interval_ms(self) -> int:
        return self._config().pk_log_scrub_interval_ms

    async def check(self) -> None:
        """Read the logs that are due now."""
        written_s = trio.current_time()
        read: set[LogDir] = set()
        for partition in await self._due():
            await let_others_run()
            if not self._interval_ms:
                break
            log = partition.log
            if not self._is_here(partition, log):
                continue
            await self._check_log(partition, log, log.state.segments[:-1])
            if self._is_here(partition, log):
                if not log.damaged_segments:
                    now_ms = self._replicas.clock.now_ms()
                    log.log_dir.scrub_times[partition.tp] = now_ms
                read.add(log.log_dir)
            if trio.current_time() - written_s >= CHECK_S:
                await self._write_scrub_times(read)
                written_s = trio.current_time()
        await self._write_scrub_times(read)

    async def _write_scrub_times(self, directories: set[LogDir]) -> None:
        for directory in directories:
            try:
                await offload(directory.write_scrub_times, directory=directory.path)
            except StorageError as e:
                self._replicas.failures.report(e)
        directories.clear()

    async def _due(self) -> list[Partition]:
        """Return the logs to read now, starting with those that have waited longest."""
        interval_ms, now_ms = self._interval_ms, self._replicas.clock.now_ms()
        due: list[tuple[int, Partition]] = []
        if not interval_ms:
            return []
        for partition in list(self._replicas):
            await let_others_run()
            log = partition.log
            if partition.offline is not None or log.damaged_segments:
                continue
            last_ms = log.log_dir.scrub_times.get(partition.tp, 0)
            if not now_ms - interval_ms < last_ms <= now_ms:
                due.append((last_ms, partition))
        due.sort(key=lambda one: one[0])
        return [partition for _, partition in due]

    async def _scrub_suspects(self) -> None:
        while True:
            await self._suspected.wait()
            self._suspected = trio.Event()
            while self._suspects:
                partition = next(iter(self._suspects))
                del self._suspects[partition]
                log = partition.log
                await self._check_log(partition, log, _suspected(log))
                await self._write_scrub_times({log.log_dir})

    async def _check_log(self, partition: Partition, log: Log, segments: list[Segment]) -> None:
        """Check some segments of a log."""
        try:
            with unexpected_errors("check for damage"):
                for segment in segments:
                    await self._check_segment(partition, log, segment)
        except StorageError as e:
            self._failed(partition, e)
        except KafkaError as e:
            logger.error("%s could not be checked for damage: %s", partition.tp, e)
        except OSError as e:
            self._failed(
                partition, StorageError(log.state.directory, "check for damage", e, not is_fault(e))
            )

    async def _check_segment(self, partition: Partition, log: Log, segment: Segment) -> None:
        following, size = self._following(partition, log, segment), segment.size
        if following is None or not size or segment.base_offset in log.damaged_segments:
            return
        epochs = LeaderEpochs(log.state.epochs.entries)
        try:
            damaged = await self._bandwidth.run(
                find_damage(segment, size, following, epochs), log.log_dir.path
            )
        except FileNotFoundError:
            damaged = Damaged(0, "the file is missing")
        self._metrics.scrubbed_bytes.value += size
        if damaged is None or segment.size != size:
            return
        if self._following(partition, log, segment) != following:
            return  # the segment was compacted, deleted or truncated in the meantime
        if segment.base_offset in log.damaged_segments:
            return  # the other task has already recorded the damage
        segment.checked.forget(damaged.position, size)  # so that the next reader checks it again
        log.damaged_segments[segment.base_offset] = damaged.what
        log.log_dir.scrub_times[partition.tp] = 0
        self._metrics.damaged_segments.value += 1
        logger.error(
            "%s: %s is damaged at position %d: %s",
            partition.tp, segment.file.path, damaged.position, damaged.what,
        )  # fmt: skip
        self._damaged[partition] = _Retry()
        self._reports.changed(partition)
        self._found.set()

    def _following(self, partition: Partition, log: Log, segment: Segment) -> int | None:
        """Return the base offset of the segment after this one, or None if this is not a closed
        segment of the partition's log, or the log is being truncated."""
        if not self._is_here(partition, log) or partition.busy:
            return None
        segments = log.state.segments
        for i, one in enumerate(segments[:-1]):
            if one is segment:
                return segments[i + 1].base_offset
        return None

    # --- repairing ---

    async def _repair_all(self) -> None:
        while True:
            if not self._damaged:
                await self._found.wait()
            self._found = trio.Event()
            for partition, retry in list(self._damaged.items()):
                if not retry.is_due(partition):
                    continue
                await self._repair_log(partition, retry)
                if not partition.log.damaged_segments:
                    del self._damaged[partition]
            with trio.move_on_after(RETRY_S_MIN):
                await self._found.wait()

    async def _repair_log(self, partition: Partition, retry: _Retry) -> None:
        log = partition.log
        if not self._is_here(partition, log):
            log.damaged_segments.clear()
            return
        known = dict(log.damaged_segments)
        for base in known:
            i = next(
                (i for i, s in enumerate(log.state.segments[:-1]) if s.base_offset == base), None
            )
            if i is None:  # the segment was deleted, or merged by compaction
                log.damaged_segments.pop(base, None)
            elif not partition.leads:
                await self._repair_one(partition, log, i, retry)
                if not self._is_here(partition, log):
                    return
        retry.tried(partition)
        if partition.leads or log.damaged_segments != known:
            self._reports.changed(partition)

    async def _repair_one(self, partition: Partition, log: Log, i: int, retry: _Retry) -> None:
        segment, following = log.state.segments[i], log.state.segments[i + 1].base_offset
        leader = partition.leader
        try:
            await self._repair.repair(partition, segment, following)
        except NotRepaired as e:
            if str(e) != retry.why:
                retry.why = str(e)
                logger.warning("%s cannot be replaced now: %s", segment.file.path, e)
            return
        except StorageError as e:
            self._failed(partition, e)
            return
        except OSError as e:
            error = StorageError(log.state.directory, "replace a segment", e, not is_fault(e))
            self._failed(partition, error)
            return
        log.damaged_segments.pop(segment.base_offset, None)
        self._metrics.replaced_segments.value += 1
        logger.warning(
            "%s: the damaged segment at offset %d was replaced by that of broker %d",
            partition.tp, segment.base_offset, leader,
        )  # fmt: skip

    def _failed(self, partition: Partition, error: StorageError) -> None:
        if error.undone or error.is_transient:
            logger.warning("%s was not scrubbed: %s", partition.tp, error)
        elif self._is_here(partition, partition.log):
            self._replicas.failures.fail_partition(partition, error)

    def _is_here(self, partition: Partition, log: Log) -> bool:
        return (
            self._replicas.find(*partition.tp) is partition
            and partition.offline is None
            and partition.log is log
        )


def _suspected(log: Log) -> list[Segment]:
    """Return the closed segments in which a read has found damage that is not recorded yet."""
    return [
        segment
        for segment in log.state.segments[:-1]
        if segment.checked.damaged and segment.base_offset not in log.damaged_segments
    ]


class _Retry:
    """When to retry the damaged segments of a partition."""

    __slots__ = ("_at", "_epoch", "_wait_s", "why")

    def __init__(self) -> None:
        self._at = trio.current_time()
        self._epoch = -1
        self._wait_s = RETRY_S_MIN
        self.why = ""
        """The reason why the last try failed."""

    def is_due(self, partition: Partition) -> bool:
        """Return whether the pause has ended, or the leader epoch has changed."""
        return trio.current_time() >= self._at or partition.leader_epoch != self._epoch

    def tried(self, partition: Partition) -> None:
        """Record that everything that is possible now has been tried."""
        self._epoch = partition.leader_epoch
        self._at = trio.current_time() + self._wait_s
        self._wait_s = min(self._wait_s * 2, RETRY_S_MAX)
