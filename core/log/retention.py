"""Decides which segments are too old or exceed the size: Kafka's rules for `cleanup.policy=delete`,
as pure planning.

Whole segments are deleted, oldest first. A segment is

    too old     its latest timestamp is more than `retention.ms` ago; if none of its records has a
                timestamp, or they cannot be read, the time of its last write counts
    too much    without it the log would still have `retention.bytes`
    before      the next segment begins at or before the start of the log (DeleteRecords, or a
                leader's start)

and none that extends above the high watermark, because a follower that becomes leader must have all
acknowledged records. The active segment may be deleted too: then the log is rolled first, so that
there is a segment to append to. Segments before the log start are deleted under any policy; age and
size count only if it includes `delete`.
"""

from itertools import pairwise

from msgspec import Struct

from pk.core.log.log import Log
from pk.core.log.segment import Segment
from pk.core.record.batch import CorruptBatch


class Retention(Struct, frozen=True):
    """Limits of time and size; negative values mean unlimited."""

    retention_ms: int
    retention_bytes: int


def start_offset(
    log: Log, retention: Retention | None, high_watermark: int, now_ms: int
) -> int | None:
    """Compute the new start of the log from the limits. Returns None if it does not change.
    `retention` is None for a log that is only compacted.

    May read a time index, so do not call it on the event loop. Raises OSError.
    """
    segments, end = log.state.segments, log.state.log_end_offset
    excess = None
    if retention is not None and retention.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - retention.retention_bytes
    start = None
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else None
        after = end if following is None else following
        if following is None and not segment.size:
            break
        if after > high_watermark:
            break
        before = following is not None and following <= log.state.log_start_offset
        much = excess is not None and excess >= segment.size
        if not (before or much or _is_expired(segment, retention, following is None, now_ms)):
            break
        if excess is not None:
            excess -= segment.size
        start = after
    return start


def local_start_offset(
    log: Log, retention: Retention, high_watermark: int, copied_to: int, now_ms: int
) -> int | None:
    """Compute the offset at which the local records will begin, for a log whose segments are copied
    to remote storage, from the local limits. Returns None if it does not change. Segments with an
    offset above `copied_to`, the last copied offset, stay, and so does the active segment."""
    segments = log.state.segments
    excess = sum(segment.size for segment in segments) - retention.retention_bytes
    if retention.retention_bytes < 0:
        excess = -1
    start = None
    for segment, following in pairwise(segments):
        after = following.base_offset
        if after > min(high_watermark, copied_to + 1):
            break
        much = excess >= segment.size
        if not (much or _is_expired(segment, retention, False, now_ms)):
            break
        excess -= segment.size
        start = after
    return start


def has_segments_below_start(log: Log) -> bool:
    """Return whether there are segments completely below the log start."""
    segments = log.state.segments
    return len(segments) > 1 and segments[1].base_offset <= log.state.log_start_offset


def _is_expired(segment: Segment, retention: Retention | None, is_last: bool, now_ms: int) -> bool:
    if retention is None or retention.retention_ms < 0:
        return False
    try:
        latest = segment.max_timestamp.timestamp
    except CorruptBatch:  # old format and damaged: unreadable, but must not be kept forever
        latest = -1
    if latest < 0:
        if is_last:  # probably still being written: it rolls by `segment.ms`
            return False
        latest = segment.modified_ms
    return now_ms - latest > retention.retention_ms
