"""Planted bugs of tiered storage (planted.py): each in force while its context is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from sim.patching import patched

from pk.core.broker.remote import remote_log_manager
from pk.core.broker.remote.remote_log_manager import RemoteLogManager
from pk.core.broker.replication import log_reconciler, remote_log
from pk.core.log import retention as log_retention
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.log import Log
from pk.core.log.remote import plan
from pk.core.log.remote import segments as remote_segments
from pk.core.log.remote.metadata import RemoteSegment, SegmentState
from pk.core.log.remote.segment_object import READ_BYTES, format_tail
from pk.core.log.remote.segments import RemoteSegments


@contextmanager
def deleted_segments_count_as_copied() -> Iterator[None]:
    """The end of any segment in the metadata counts as copied, whatever its state."""

    def wrong(segments: RemoteSegments, lineage: Any, from_offset: int, log_end_offset: int) -> int:
        return max([s.end_offset for s in segments], default=from_offset - 1)

    with patched(remote_log, copied_to=wrong):
        yield


@contextmanager
def late_note_wins() -> Iterator[None]:
    """A segment whose deletion has begun counts as copied when a late note says so."""
    following = dict(remote_segments.NEXT)
    following[SegmentState.DELETE_STARTED] = frozenset(SegmentState)
    with patch.object(remote_segments, "NEXT", following):
        yield


@contextmanager
def noted_before_stored() -> Iterator[None]:
    """A segment counts as copied when its copy begins."""
    begin = RemoteSegments._begin

    def wrong(self: RemoteSegments, segment: RemoteSegment) -> None:
        begin(self, segment)
        self._show(segment)

    with patched(RemoteSegments, _begin=wrong):
        yield


@contextmanager
def orphans_stay() -> Iterator[None]:
    """No leader looks for objects that are no segments."""

    async def nothing(self: RemoteLogManager, partition: Any, remote: Any, epoch: int) -> None:
        pass

    with patched(RemoteLogManager, _delete_orphans=nothing):
        yield


@contextmanager
def dropped_uncopied() -> Iterator[None]:
    """Local retention does not ask what was copied."""
    start_offset = log_retention.local_start_offset

    def wrong(log: Log, retention: Any, high_watermark: int, copied_to: int, now_ms: int) -> Any:
        return start_offset(log, retention, high_watermark, 1 << 62, now_ms)

    with (
        patched(log_retention, local_start_offset=wrong),
        patch.object(remote_log.RemoteLog, "copied_to", lambda self, log: 1 << 62),
    ):
        yield


@contextmanager
def uncommitted_copied() -> Iterator[None]:
    """A leader copies closed segments up to the end of its log."""
    found = remote_log_manager.next_to_copy

    def wrong(segments: Any, from_offset: int, end_offset: int) -> Any:
        return found(segments, from_offset, 1 << 62)

    with patched(remote_log_manager, next_to_copy=wrong):
        yield


@contextmanager
def epochs_not_rebuilt() -> Iterator[None]:
    """A follower that starts at its leader's local start has no leader epochs from before."""

    def none(entries: Any = ()) -> LeaderEpochs:
        return LeaderEpochs()

    with patch.object(log_reconciler, "LeaderEpochs", none):
        yield


@contextmanager
def deleted_while_it_counts() -> Iterator[None]:
    """The oldest segments are deleted by their age, and the start of the log stays."""
    due = remote_log_manager.due_deletion

    def wrong(segments: Any, log: Any, retention: Any, now_ms: int, copying: Any) -> Any:
        found = due(segments, log, retention, now_ms, copying)
        return plan.Deletion(None, found.segments)

    with patched(remote_log_manager, due_deletion=wrong):
        yield


@contextmanager
def rot_is_copied() -> Iterator[None]:
    """A segment is copied as it is on the disk, unchecked."""

    def unchecked(file: Any, tail: Any) -> Callable[[], Iterator[Any]]:
        def content() -> Iterator[Any]:
            for position in range(0, tail.size, READ_BYTES):
                yield file.pread(min(READ_BYTES, tail.size - position), position)
            yield format_tail(tail)

        return content

    with patched(remote_log_manager, pieces=unchecked):
        yield


BUGS: Final = {
    "remote-any-state": deleted_segments_count_as_copied,
    "remote-late-note": late_note_wins,
    "remote-noted-early": noted_before_stored,
    "remote-orphans-stay": orphans_stay,
    "remote-dropped-uncopied": dropped_uncopied,
    "remote-uncommitted": uncommitted_copied,
    "remote-epochs-lost": epochs_not_rebuilt,
    "remote-start-stays": deleted_while_it_counts,
    "remote-rot-copied": rot_is_copied,
}
"""Name → the bug."""
