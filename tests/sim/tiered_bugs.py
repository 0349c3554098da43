"""Planted bugs of tiered storage (planted.py): each in force while its context is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from sim.patching import patched

from pk.core.broker.remote import segment_copier, segment_deleter
from pk.core.broker.remote.metadata_topic import RemoteLogMetadataTopic
from pk.core.broker.remote.remote_log_manager import RemoteLogManager
from pk.core.broker.remote.segment_deleter import SegmentDeleter
from pk.core.broker.replication import log_reconciler, remote_log
from pk.core.log import retention as log_retention
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.log import Log
from pk.core.log.remote import plan
from pk.core.log.remote.metadata import RemoteSegment
from pk.core.log.remote.reading import CHUNK_BYTES, RemoteReader
from pk.core.log.remote.segment_object import READ_BYTES, format_tail
from pk.core.log.remote.segments import RemoteSegments


@contextmanager
def deleted_segments_count_as_copied() -> Iterator[None]:
    """The end of any segment in the metadata counts as copied, regardless of its state."""

    def wrong(segments: RemoteSegments, lineage: Any, from_offset: int, log_end_offset: int) -> int:
        return max([s.end_offset for s in segments], default=from_offset - 1)

    with patched(remote_log, copied_to=wrong):
        yield


@contextmanager
def metadata_not_read() -> Iterator[None]:
    """A new leader does not wait until it has read what earlier ones wrote."""

    async def at_once(self: RemoteLogMetadataTopic, key: Any) -> None:
        self.follow([self.number_for(key)])

    with patched(RemoteLogMetadataTopic, catch_up=at_once):
        yield


@contextmanager
def start_not_found() -> Iterator[None]:
    """A new leader takes the start of its log from its disk alone."""

    def believe(self: RemoteLogManager, partition: Any, remote: Any, epoch: int) -> None:
        pass

    with patched(RemoteLogManager, _find_start=believe):
        yield


@contextmanager
def part_taken_for_whole() -> Iterator[None]:
    """A range that came in part is kept as the whole."""

    def unmeasured(self: RemoteReader, name: str, number: int, size: int) -> bytes:
        start = number * CHUNK_BYTES
        wanted = min(CHUNK_BYTES, size - start)
        return bytes(self._storage.get(name, start, wanted)).ljust(wanted, b"\0")

    with patched(RemoteReader, _fetch=unmeasured):
        yield


@contextmanager
def noted_before_stored() -> Iterator[None]:
    """A segment counts as copied when its copy begins."""
    begin = RemoteSegments._begin

    def wrong(self: RemoteSegments, segment: RemoteSegment) -> None:
        begin(self, segment)
        self._make_readable(segment)

    with patched(RemoteSegments, _begin=wrong):
        yield


@contextmanager
def orphans_stay() -> Iterator[None]:
    """No leader looks for objects that are no segments."""

    async def nothing(self: SegmentDeleter, partition: Any, remote: Any, epoch: int) -> None:
        pass

    with patched(SegmentDeleter, delete_orphans=nothing):
        yield


@contextmanager
def dropped_uncopied() -> Iterator[None]:
    """Local retention does not check which records were copied."""
    start_offset = log_retention.local_start_offset

    def wrong(log: Log, retention: Any, high_watermark: int, copied_to: int, now_ms: int) -> Any:
        return start_offset(log, retention, high_watermark, 1 << 62, now_ms)

    with (
        patched(log_retention, local_start_offset=wrong),
        patch.object(remote_log.RemoteLog, "copied_to", lambda self, log: 1 << 62),
    ):
        yield


@contextmanager
def epochs_not_rebuilt() -> Iterator[None]:
    """A follower that starts at its leader's local start has no leader epochs from before, and does
    not read them when it leads."""

    def none(entries: Any = ()) -> LeaderEpochs:
        return LeaderEpochs()

    async def not_found(self: RemoteLogManager, partition: Any, remote: Any, epoch: int) -> None:
        pass

    with (
        patch.object(log_reconciler, "LeaderEpochs", none),
        patched(RemoteLogManager, _find_epochs=not_found),
    ):
        yield


@contextmanager
def deleted_while_it_counts() -> Iterator[None]:
    """The oldest segments are deleted by their age, and the start of the log stays."""
    due = segment_deleter.due_deletion

    def wrong(segments: Any, log: Any, retention: Any, now_ms: int, copying: Any) -> Any:
        found = due(segments, log, retention, now_ms, copying)
        return plan.Deletion(None, found.segments)

    with patched(segment_deleter, due_deletion=wrong):
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

    with patched(segment_copier, pieces=unchecked):
        yield


BUGS: Final = {
    "remote-any-state": deleted_segments_count_as_copied,
    "remote-not-read": metadata_not_read,
    "remote-start-lost": start_not_found,
    "remote-part-kept": part_taken_for_whole,
    "remote-noted-early": noted_before_stored,
    "remote-orphans-stay": orphans_stay,
    "remote-dropped-uncopied": dropped_uncopied,
    "remote-epochs-lost": epochs_not_rebuilt,
    "remote-start-stays": deleted_while_it_counts,
    "remote-rot-copied": rot_is_copied,
}
"""Name → the bug."""
