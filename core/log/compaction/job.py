"""Whether a log is worth compacting, and the job that does it.

    0 ....... first dirty ............ end ..... active segment ....
      clean: compacted already   dirty          not to be touched

The end is a segment's begin: not above the last stable offset (transactions behind it are
undecided), below the active segment, and below the first segment with a record that is younger than
`min.compaction.lag.ms`. A log is due when the dirty bytes are more than `min.cleanable.dirty.ratio`
of all below the end, or when the oldest of them has waited for `max.compaction.lag.ms`. The one
with the largest share comes first (Apache's LogCleanerManager).
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
    """A topic's keys that steer compaction."""

    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = LONG_MAX
    delete_retention_ms: int = 86_400_000


class Cleanable(NamedTuple):
    """What there is to compact in a log."""

    first_dirty_offset: int
    end_offset: int
    dirty_ratio: float
    overdue: bool
    """`max.compaction.lag.ms` has passed for a record."""


class Job(Struct, frozen=True):
    """One round of compaction: everything that `compact.clean` needs to know."""

    directory: str
    parts: tuple[Part, ...]
    """The log's segments from its first up to the end, all of them at rest."""
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    keys_max: int
    buffer_bytes: int
    """Read and written at a time, where a batch is not larger."""
    segment_bytes: int
    index_bytes_max: int
    index_interval_bytes: int
    producers: tuple[tuple[int, int, int], ...]
    """Those that are active: (producer id, last data offset or -1, epoch)."""
    aborted: tuple[AbortedTxn, ...]


def cleanable(log: Log, config: CompactionConfig, limit: int, now_ms: int) -> Cleanable | None:
    """What of the log below `limit` can be compacted, None if nothing. May read time indexes: not
    on the loop. Raises OSError."""
    segments = log.segments
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
    """Whether it is time to compact."""
    return found.overdue or found.dirty_ratio > config.min_dirty_ratio


def first_dirty_offset(log: Log) -> int:
    """Up to where the log was compacted; its start, if it never was or the note of it cannot be
    true any more."""
    noted = log.first_dirty_offset
    if noted is None or not log.log_start_offset <= noted <= log.segments[-1].base_offset:
        return log.log_start_offset
    return noted


def prepare(log: Log, found: Cleanable) -> None:
    """Look at the files of a round that is due, so that `make_job` has nothing to rebuild. Not on
    the loop. Raises OSError, CorruptBatch."""
    for segment in log.segments:
        if segment.base_offset < found.end_offset:
            segment.check_indexes()
    aborted.keep(log.state, *log.segments)


def make_job(
    log: Log,
    found: Cleanable,
    config: CompactionConfig,
    now_ms: int,
    keys_max: int,
    buffer_bytes: int = BUFFER_BYTES,
) -> Job:
    """The job for what `cleanable` found; reads the producers' state and transaction indexes.
    Raises OSError, StorageError."""
    segments = log.segments
    parts = segments[: bisect_right(segments, found.end_offset - 1, key=lambda s: s.base_offset)]
    return Job(
        directory=log.directory,
        parts=tuple(part_of(segment) for segment in parts),
        first_dirty_offset=found.first_dirty_offset,
        end_offset=found.end_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        keys_max=keys_max,
        buffer_bytes=buffer_bytes,
        segment_bytes=log.config.segment_bytes,
        index_bytes_max=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        producers=tuple((p.producer_id, p.last_offset, p.epoch) for p in log.producers),
        aborted=tuple(aborted.between(log.state, segments[0].base_offset, found.end_offset)),
    )


def part_of(segment: Segment) -> Part:
    """What a job says of a segment."""
    return Part(
        segment.base_offset,
        segment.size,
        segment.index.entries * 8,
        segment.time_index.entries * 12,
    )


def latest_ms(segment: Segment) -> int:
    """The latest timestamp in a segment; the time of its last write where no record has one. Raises
    OSError."""
    latest = segment.max_timestamp.timestamp
    return latest if latest >= 0 else segment.modified_ms


def first_ms(segment: Segment) -> int:
    """The time of a segment's first batch; of its last write where that has none. Raises
    OSError."""
    first = segment.first_timestamp
    if first is None:
        segment.check_indexes()
        first = segment.first_timestamp = segment.header_at(0).max_timestamp
    return first if first >= 0 else segment.modified_ms
