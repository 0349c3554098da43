"""The part of a partition's log that is in remote storage, as a broker reads it.

Records that are not in memory are read in threads of their own (`remote.log.reader.threads`), so
that a slow store does not delay the disks. If a read takes longer than its reader waits, it
continues, and its data stays in memory for a while: the reader finds it there when it reads again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar, TypeVarTuple

import trio

from pk.core.broker.clock import Clock
from pk.core.broker.offload import offload
from pk.core.broker.replication.replication_quotas import Quota
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.log import aborted
from pk.core.log.failures import storage_errors
from pk.core.log.file_slices import EMPTY, Slice
from pk.core.log.log import Log
from pk.core.log.lookup import FoundTimestamp
from pk.core.log.non_blocking import WouldBlock, non_blocking
from pk.core.log.remote.metadata import RemoteSegment, SegmentState
from pk.core.log.remote.reading import RemoteReader
from pk.core.log.remote.segments import (
    RemoteRange,
    RemoteSegments,
    copied_to,
    epoch_ranges,
    highest_copied,
    range_at,
    with_aborted,
)
from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError
from pk.core.log.txnindex import AbortedTxn

logger = logging.getLogger("pk.remote")

LOG_INTERVAL_S: Final = 60.0
"""The interval at which failed reads are logged, in seconds."""

T = TypeVar("T")
Args = TypeVarTuple("Args")


class RemoteReadResult(NamedTuple):
    """Records from remote storage."""

    records: Slice
    aborted: list[AbortedTxn] | None
    """The aborted transactions whose records a read_committed reader must skip."""


async def wait_for_quota(quota: Quota) -> None:
    """Wait until a quota is no longer exceeded."""
    wait_s = quota.wait_s
    while wait_s:
        await trio.sleep(wait_s)
        wait_s = quota.wait_s


class RemoteReads:
    """The reads of one broker from remote storage."""

    def __init__(
        self,
        storage: RemoteStorage,
        cluster_id: Callable[[], str],
        config: Callable[[], BrokerConfig],
        clock: Clock,
        start_soon: Callable[..., None],
    ) -> None:
        """`config` returns the current configuration; `start_soon` starts a background task."""
        self._config = config
        self._clock = clock
        self._start_soon = start_soon
        now = config()
        self.quota = Quota(
            clock,
            now.remote_log_manager_fetch_max_bytes_per_second,
            now.remote_log_manager_fetch_quota_window_num,
            now.remote_log_manager_fetch_quota_window_size_seconds,
        )
        self.fetched_bytes = 0
        """The number of bytes fetched from the store."""
        self.reader = RemoteReader(
            storage,
            cluster_id,
            index_bytes_max=now.remote_log_index_file_cache_total_size_bytes,
            fetched=self._count,
        )
        self._limiter = trio.CapacityLimiter(now.remote_log_reader_threads)
        self._failures = 0
        """The number of reads that failed since the last log line."""
        self._log_again_at = 0.0

    def configure(self) -> None:
        """Use the current configuration."""
        now = self._config()
        self.quota.rate = now.remote_log_manager_fetch_max_bytes_per_second
        self._limiter.total_tokens = now.remote_log_reader_threads
        self.reader.limit_indexes(now.remote_log_index_file_cache_total_size_bytes)

    def _count(self, count: int) -> None:
        self.fetched_bytes += count
        self.quota.record(count)

    async def run(self, fn: Callable[[*Args], T], *args: *Args) -> T:
        """Run a read in a thread, when the quota allows it. Raises KafkaError(KAFKA_STORAGE_ERROR)
        if the store fails."""
        await wait_for_quota(self.quota)
        try:
            return await offload(fn, *args, limiter=self._limiter)
        except RemoteStorageError as e:
            self._failed(e)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"remote storage: {e}") from e

    async def run_unless_cached(self, fn: Callable[[*Args], T], *args: *Args) -> T:
        """Like `run`, but on the event loop if everything is in memory and its CRCs were checked.
        Otherwise `fn` must raise WouldBlock in a non-blocking read."""
        with suppress(WouldBlock), non_blocking():
            return fn(*args)
        return await self.run(fn, *args)

    def read_ahead(self, segment: RemoteSegment) -> None:
        """Fetch the chunks after the last read of a segment, in the background, if half of the
        threads are idle and the quota is not used up."""
        if self.quota.wait_s or 2 * self._limiter.borrowed_tokens > self._limiter.total_tokens:
            return
        for number in self.reader.ahead(segment):
            self._start_soon(self._load_ahead, segment, number)

    async def _load_ahead(self, segment: RemoteSegment, number: int) -> None:
        # If the load fails, a consumer that needs the chunk fetches it again, and gets the error.
        with suppress(RemoteStorageError):
            await offload(self.reader.load_ahead, segment, number, limiter=self._limiter)

    def _failed(self, error: RemoteStorageError) -> None:
        """Log the first failure of each minute, since readers retry all the time."""
        self._failures += 1
        now = self._clock.time()
        if now >= self._log_again_at:
            logger.warning("remote storage: %d reads failed, the last: %s", self._failures, error)
            self._failures, self._log_again_at = 0, now + LOG_INTERVAL_S

    async def run_within(self, timeout_s: float, read: Callable[[], Awaitable[None]]) -> bool:
        """Run the coroutine function `read`, which must not raise, as a background task, and wait
        for it for `timeout_s`. Returns whether it has ended."""
        done = trio.Event()

        async def run() -> None:
            try:
                await read()
            finally:
                done.set()

        self._start_soon(run)
        with trio.move_on_after(timeout_s):
            await done.wait()
        return done.is_set()

    @property
    def fetch_wait_s(self) -> float:
        """How long a fetch waits for the store, in seconds."""
        return self._config().remote_fetch_max_wait_ms / 1000

    @property
    def search_wait_s(self) -> float:
        """How long ListOffsets waits for the store, in seconds."""
        return self._config().remote_list_offsets_request_timeout_ms / 1000


class RemoteLog:
    """The remote segments of one partition, and how they are read."""

    def __init__(self, segments: RemoteSegments, reads: RemoteReads) -> None:
        self.segments = segments
        self.reads = reads
        self.is_current = False
        """Whether all records about its segments were read, as of the start of this leadership."""

    def highest_copied(self, log: Log) -> tuple[int, int]:
        """Return (offset, epoch) of the last offset of `log` that was copied; (-1, -1) if none
        was."""
        return highest_copied(self.segments, log.state.epochs.entries, log.state.log_end_offset)

    def copied_to(self, log: Log) -> int:
        """Return the last offset up to which all local records were copied; one before the first
        local record if that one was not."""
        state = log.state
        start = max(state.log_start_offset, state.local_log_start_offset)
        return copied_to(self.segments, state.epochs.entries, start, state.log_end_offset)

    def last_before_local(self, log: Log) -> RemoteSegment | None:
        """Return the segment that has the leader epochs of `log` before its first local segment, if
        these are unknown. After an unclean election there may be several such segments; the result
        is the one with the newest epoch that can precede the local ones."""
        state, lineage = log.state, log.state.epochs.entries
        local_start = state.local_log_start_offset
        known_from = lineage[0].start_offset if lineage else local_start
        if state.log_start_offset >= min(local_start, known_from):
            return None
        following = lineage[0].epoch if lineage else log.state.noted_epoch
        best: tuple[int, RemoteSegment] | None = None
        for segment in self.segments:
            if segment.state is not SegmentState.COPY_FINISHED:
                continue
            for epoch, start, end in epoch_ranges(segment):
                fits = start < known_from <= end + 1 and (following < 0 or epoch <= following)
                if fits and (best is None or epoch > best[0]):
                    best = epoch, segment
        return best[1] if best is not None else None

    def first_offset(self, log: Log) -> int:
        """Return the first offset from the log start on that is in either tier, in any epoch."""
        state = log.state
        start, local_start = state.log_start_offset, state.local_log_start_offset
        if start >= local_start or self.has(log, start, start):
            return start
        starts = [
            segment.start_offset
            for segment in self.segments
            if segment.state is SegmentState.COPY_FINISHED and segment.end_offset >= start
        ]
        return max(start, min([*starts, local_start]))

    def has(self, log: Log, start_offset: int, end_offset: int) -> bool:
        """Return whether all offsets of `log` from `start_offset` to `end_offset` have been
        copied."""
        state = log.state
        lineage = state.epochs.entries
        copied = copied_to(self.segments, lineage, start_offset, state.log_end_offset)
        return copied >= end_offset

    def copy_lag(self, log: Log) -> tuple[int, int]:
        """Return the number of bytes and of closed segments of `log` that were not copied."""
        copied = self.copied_to(log)
        due = [s.size for s in log.state.segments[:-1] if s.base_offset > copied]
        return sum(due), len(due)

    def range_at(self, log: Log, offset: int) -> RemoteRange:
        """Return the segment that has `offset` of `log`. Raises KafkaError: OFFSET_OUT_OF_RANGE, or
        REPLICA_NOT_AVAILABLE while not all segments are known."""
        found = range_at(self.segments, log.state.epochs.entries, offset, log.state.log_end_offset)
        if found is None:
            if not self.is_current:
                raise KafkaError(
                    ErrorCode.REPLICA_NOT_AVAILABLE, "remote segments are not known yet"
                )
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.state.tp}: no remote segment has offset {offset}",
            )
        return found

    async def fetch(
        self, log: Log, offset: int, bytes_max: int, committed: bool
    ) -> RemoteReadResult:
        """Return the batches from the one that contains `offset` on, at most `bytes_max` bytes, the
        first one whole. Raises KafkaError: the errors of `range_at`, KAFKA_STORAGE_ERROR,
        CORRUPT_MESSAGE."""
        reader, at = self.reads.reader, offset
        while at < log.state.local_log_start_offset:
            found = self.range_at(log, at)
            segment, end = found.segment, found.end_offset + 1
            read = reader.read_beyond, segment, at, end, bytes_max
            fetched, beyond = await self.reads.run_unless_cached(*read)
            self.reads.read_ahead(segment)
            if not fetched.length:  # compaction had removed the rest of the segment
                at = end
                continue
            if not committed:
                return RemoteReadResult(fetched.slice, None)
            return RemoteReadResult(fetched.slice, await self._aborted(log, at, offset, beyond))
        return RemoteReadResult(EMPTY, [] if committed else None)

    async def _aborted(self, log: Log, at: int, offset: int, end: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records in [offset, end), which were found in the
        segment with the offset `at`. A transaction is in the index of the segment with its marker,
        which may be a later one, remote or local."""
        state, aborted_txns = log.state, list[AbortedTxn]()
        for segment in list(
            with_aborted(self.segments, state.epochs.entries, at, state.local_log_start_offset)
        ):
            some, more = await self.reads.run_unless_cached(
                self.reads.reader.aborted_within, segment, offset, end
            )
            aborted_txns += some
            if not more:
                return aborted_txns

        if all(segment.txn_index.empty for segment in state.segments):
            return aborted_txns

        def local() -> list[AbortedTxn]:
            with storage_errors(log.state.directory, "read aborted transactions"):
                return aborted.between(log.state, offset, end)

        known = set(aborted_txns)
        later = await offload(local, directory=log.log_dir.path)
        return aborted_txns + [txn for txn in later if txn not in known]

    async def offset_for_time(
        self, log: Log, timestamp: int, end_offset: int
    ) -> FoundTimestamp | None:
        """Return the first record in remote segments, before `end_offset`, that is not earlier than
        `timestamp`. Raises KafkaError like `fetch`."""
        at = log.state.log_start_offset
        while at < end_offset:
            found = self.range_at(log, at)
            if found.segment.max_timestamp >= timestamp:
                record = await self.reads.run(
                    self.reads.reader.offset_for_time, found.segment, timestamp, at
                )
                if record is not None and record.offset <= found.end_offset:
                    return record
            at = found.end_offset + 1
        return None

    async def max_timestamp(self, log: Log, end_offset: int) -> FoundTimestamp | None:
        """Return the first record with the latest timestamp in remote segments, before
        `end_offset`. Raises KafkaError like `fetch`."""
        at, latest = log.state.log_start_offset, None
        while at < end_offset:
            found = self.range_at(log, at)
            if latest is None or found.segment.max_timestamp > latest.max_timestamp:
                latest = found.segment
            at = found.end_offset + 1
        if latest is None:
            return None
        return await self.reads.run(self.reads.reader.max_timestamp, latest)


def as_error(error: Exception) -> KafkaError:
    """Return the error that a reader gets for an exception of a read."""
    if isinstance(error, KafkaError):
        return without_frames(error)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error))
