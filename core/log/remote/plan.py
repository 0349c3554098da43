"""Decides what to delete from remote storage: pure planning, for the leader of a partition.

A segment is deleted if

    before      it ends before the start of the log
    old         `retention.ms` has passed since its latest timestamp, or the log is longer than
                `retention.bytes` without it; oldest first, and the start of the log moves after it
    unknown     all its leader epochs are older than the first epoch of the log
    replaced    other segments have all of its records
    left over   its copy failed or its broker is gone, or its deletion was not completed
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from pk.core.log.epochs import EpochStart
from pk.core.log.remote.metadata import RemoteSegment, SegmentState
from pk.core.log.remote.segments import RemoteSegments, in_lineage, is_within
from pk.core.log.retention import Retention
from pk.core.values import Uuid


class LogOffsets(Struct, frozen=True):
    """The state of the leader's log that the plan needs."""

    start_offset: int
    end_offset: int
    high_watermark: int
    """The start of the log does not move beyond this. A new leader may not know yet that the copied
    records are committed."""
    lineage: Sequence[EpochStart]
    local_only_bytes: int
    """The size of the segments that were not copied."""


class Deletion(Struct, frozen=True):
    """The segments to delete now, and the new start of the log."""

    start_offset: int | None
    """The new start of the log, which must be set first; None if it does not change."""
    segments: list[RemoteSegment]


def due_deletion(
    segments: RemoteSegments,
    log: LogOffsets,
    retention: Retention | None,
    now_ms: int,
    copying: Collection[Uuid],
) -> Deletion:
    """Compute the segments to delete now. `copying` are the segments that this broker is copying
    now. Without `retention` no segment is too old."""
    due: dict[Uuid, RemoteSegment] = {}
    shown: list[RemoteSegment] = []
    for segment in segments:
        if segment.state is SegmentState.COPY_FINISHED and segments.is_readable(segment):
            shown.append(segment)
        elif segment.id not in copying:
            due[segment.id] = segment
    start = log.start_offset
    if retention is not None:
        start = _expire(segments, log, retention, now_ms, due)
    first_epoch = log.lineage[0].epoch if log.lineage else -1
    for segment in shown:
        unknown = bool(segment.epochs) and segment.epochs[-1].epoch < first_epoch
        if segment.end_offset < start or unknown:
            due[segment.id] = segment
    moved = start if start != log.start_offset else None
    return Deletion(moved, sorted(due.values(), key=lambda s: (s.start_offset, s.event_ms)))


def _expire(
    segments: RemoteSegments,
    log: LogOffsets,
    retention: Retention,
    now_ms: int,
    due: dict[Uuid, RemoteSegment],
) -> int:
    """Add the segments that are too old or too much to `due`. Returns the new start of the log."""
    start = log.start_offset
    ours: dict[Uuid, RemoteSegment] = {}
    for found in in_lineage(segments, log.lineage, start, log.end_offset):
        ours[found.segment.id] = found.segment
    size = sum(segment.size for segment in ours.values()) + log.local_only_bytes
    excess = size - retention.retention_bytes if retention.retention_bytes >= 0 else -1
    for segment in ours.values():
        if segment.end_offset >= log.high_watermark:
            break
        if not is_within(segment, log.lineage, log.end_offset):
            break
        written_ms = segment.max_timestamp if segment.max_timestamp >= 0 else segment.event_ms
        old = 0 <= retention.retention_ms < now_ms - written_ms
        if not old and not excess >= segment.size:
            break
        excess -= segment.size
        due[segment.id] = segment
        start = max(start, segment.end_offset + 1)
    return start
