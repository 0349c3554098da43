"""Decides whether to compact a log, and creates the job.

    0 ....... first dirty ............ end ..... active segment ....
      clean: compacted already   dirty          never compacted

The end is the start of a segment. It is at or below the last stable offset (transactions after it
are undecided), the start of the active segment, and the start of the first segment with a record
that is younger than `min.compaction.lag.ms`. A log is due when the dirty bytes exceed the share
`min.cleanable.dirty.ratio` of all bytes below the end, or when the oldest dirty record is older
than `max.compaction.lag.ms`. The log with the largest share comes first (Apache's
LogCleanerManager).
"""

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from pk.core.log import aborted
from pk.core.log.log import Log
from pk.core.log.segment import Part, Segment
from pk.core.log.txnindex import AbortedTxn

LONG_MAX = (1 << 63) - 1
BUFFER_BYTES = 1 << 18


class CompactionConfig(Struct, frozen=True):
    """The configs of a topic that control compaction."""

    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = LONG_MAX
    delete_retention_ms: int = 86_400_000


class Cleanable(NamedTuple):
    """The part of a log that can be compacted."""

    first_dirty_offset: int
    end_offset: int
    dirty_ratio: float
    overdue: bool
    """Whether `max.compaction.lag.ms` has passed for a record."""


class Job(Struct, frozen=True):
    """One round of compaction: all inputs of `compact.clean`."""

    directory: str
    parts: tuple[Part, ...]
    """The log's segments from the first up to the end, without the active one."""
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    keys_max: int
    buffer_bytes: int
    """Bytes read and written at a time, except for larger batches."""
    segment_bytes: int
    index_bytes_max: int
    index_interval_bytes: int
    producers: tuple[tuple[int, int, int], ...]
    """The active producers: (producer id, last data offset or -1, epoch)."""
    aborted: tuple[AbortedTxn, ...]


def cleanable(log: Log, config: CompactionConfig, limit: int, now_ms: int) -> Cleanable | None:
    """Return the part of the log below `limit` that can be compacted; None if there is none. May
    read time indexes, so do not call it on the event loop. Raises OSError."""
    segments = log.state.segments
    first_dirty = first_dirty_offset(log)
    if limit <= first_dirty:
        return None
    end = segments[0].base_offset
    clean_bytes = dirty_bytes = 0
    oldest = LONG_MAX
    for segment, following in pairwise(segments):
        after = following.base_offset
        if after > limit:
            break
        if after > first_dirty:
            if config.min_lag_ms > 0 and latest_ms(segment) > now_ms - config.min_lag_ms:
                break
            dirty_bytes += segment.size
            if config.max_lag_ms < LONG_MAX and segment.size:
                oldest = min(oldest, first_ms(segment))
        else:
            clean_bytes += segment.size
        end = after
    if end <= first_dirty or not dirty_bytes:
        return None
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    return Cleanable(first_dirty, end, ratio, now_ms - oldest > config.max_lag_ms)


def is_due(found: Cleanable, config: CompactionConfig) -> bool:
    """Return whether the log is due for compaction."""
    return found.overdue or found.dirty_ratio > config.min_dirty_ratio


def first_dirty_offset(log: Log) -> int:
    """Return the offset up to which the log was compacted; its start, if it never was or the
    recorded offset is impossible."""
    noted = log.segments.first_dirty_offset
    if (
        noted is None
        or not log.state.log_start_offset <= noted <= log.state.segments[-1].base_offset
    ):
        return log.state.log_start_offset
    return noted


def prepare(log: Log, found: Cleanable) -> None:
    """Check the files of a round that is due, so that `make_job` need not rebuild an index. Do not
    call it on the event loop. Raises OSError, CorruptBatch."""
    for segment in log.state.segments:
        if segment.base_offset < found.end_offset:
            segment.check_indexes()
    aborted.keep(log.state, *log.state.segments)


def make_job(
    log: Log,
    found: Cleanable,
    config: CompactionConfig,
    now_ms: int,
    keys_max: int,
    buffer_bytes: int = BUFFER_BYTES,
) -> Job:
    """Make the job for a result of `cleanable`. Reads the producer state and the indexes of aborted
    transactions. Raises OSError, StorageError."""
    segments = log.state.segments
    parts = segments[: bisect_right(segments, found.end_offset - 1, key=lambda s: s.base_offset)]
    return Job(
        directory=log.state.directory,
        parts=tuple(part_of(segment) for segment in parts),
        first_dirty_offset=found.first_dirty_offset,
        end_offset=found.end_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        keys_max=keys_max,
        buffer_bytes=buffer_bytes,
        segment_bytes=log.state.config.segment_bytes,
        index_bytes_max=log.state.config.segment_index_bytes,
        index_interval_bytes=log.state.config.index_interval_bytes,
        producers=tuple((p.producer_id, p.last_offset, p.epoch) for p in log.state.producers),
        aborted=tuple(aborted.between(log.state, segments[0].base_offset, found.end_offset)),
    )


def part_of(segment: Segment) -> Part:
    """Describe a segment for the job."""
    return Part(
        segment.base_offset,
        segment.size,
        segment.index.entries * 8,
        segment.time_index.entries * 12,
    )


def latest_ms(segment: Segment) -> int:
    """Return the latest timestamp in a segment, or the time of its last write if no record has one.
    Raises OSError."""
    latest = segment.max_timestamp.timestamp
    return latest if latest >= 0 else segment.modified_ms


def first_ms(segment: Segment) -> int:
    """Return the max timestamp of a segment's first batch, or the time of the segment's last write
    if that batch has none. Raises OSError."""
    first = segment.first_timestamp
    if first is None:
        segment.check_indexes()
        first = segment.first_timestamp = segment.header_at(0).max_timestamp
    return first if first >= 0 else segment.modified_ms
