"""Manages the segments of a log: starts new ones, drops old ones, truncates the end, and swaps in
compacted ones."""

import contextlib
import zlib
from collections.abc import Sequence

from pk.core.log import lookup, swap
from pk.core.log.config import LogConfig
from pk.core.log.durability import Durability
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.producers import Producers
from pk.core.log.segment import DELETED, LOG, Part, Segment, file_name
from pk.core.log.state import INT32_MAX, LogState
from pk.core.values import NO_EPOCH


class LogSegments:
    """The segments of one log. Methods raise StorageError, unless they say otherwise."""

    __slots__ = (
        "_deleted",
        "_durability",
        "_log",
        "_swap",
        "first_dirty_offset",
        "index_bytes_max",
        "roll_ms",
        "segment_bytes",
    )

    def __init__(self, log: LogState, durability: Durability) -> None:
        self._log = log
        self._durability = durability
        self._deleted: dict[str, None] = {}
        self._swap: swap.Swap | None = None
        self.first_dirty_offset: int | None = None
        """The offset up to which the log is compacted; None if it is unknown."""
        self.configure(log.config)

    def configure(self, config: LogConfig) -> None:
        """Apply new settings."""
        self.segment_bytes = min(config.segment_bytes, INT32_MAX)
        self.index_bytes_max = config.segment_index_bytes - config.segment_index_bytes % 12
        self._set_roll_time()

    def activate(self, segment: Segment) -> None:
        """Prepare a segment for the first append since the log was opened. Also loads the
        producers: if they were read after that append, they would include it already."""
        log = self._log
        log.changed = True
        log.producers  # noqa: B018
        try:
            segment.activate(0, log.config.segment_index_bytes)
        except OSError as e:
            raise log.refuse("read an index", e) from e

    def create(self, segment: Segment) -> None:
        """Create the files of a new segment, which becomes the active one. Raises OSError."""
        config = self._log.config
        allocate_bytes = self.segment_bytes if config.preallocate else 0
        segment.activate(allocate_bytes, config.segment_index_bytes)

    def must_roll(
        self, segment: Segment, size: int, last_offset: int, latest: int, now_ms: int
    ) -> bool:
        """Return whether a batch of `size` bytes, with this last offset and latest timestamp, must
        go into a new segment: the active segment or its indexes are full, or it is too old."""
        if last_offset - segment.base_offset > INT32_MAX:
            return True
        if not segment.size:
            return False
        if segment.size + size > self.segment_bytes or segment.index_bytes >= self.index_bytes_max:
            return True
        first = segment.first_timestamp
        if first is not None and first >= 0:
            return latest - first > self.roll_ms
        return now_ms - segment.created_ms > self.roll_ms

    def begin_segment(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Finish the active segment, and begin the next one at `base_offset` (default: the log
        end). Returns the new segment, or the active one if it is empty and begins there."""
        log = self._log
        base_offset = log.log_end_offset if base_offset is None else base_offset
        old = log.segments[-1]
        if not old.size and old.base_offset == base_offset:
            return old
        segment = Segment(log.disk, log.directory, base_offset, {}, now_ms)
        try:
            if not old.active:
                old.activate()
            old.seal()
            old.write_indexes()
            self._durability.write_snapshot(base_offset)
            self.create(segment)
            old.trim()
        except OSError as e:
            raise log.refuse("roll", e) from e
        if old.size:
            old.modified_ms = now_ms
            old.rest()
            log.segments = [*log.segments, segment]
        else:
            log.segments = [*log.segments[:-1], segment]
            self._drop_quietly([old])
        log.log_end_offset = base_offset
        log.names_changed = log.changed = True
        self._set_roll_time()
        return segment

    def _set_roll_time(self) -> None:
        """Compute the age at which the active segment rolls. The jitter, which spreads the rolls of
        many partitions, is not random but derived from the segment's name."""
        log = self._log
        jitter_max = min(log.config.segment_jitter_ms, log.config.segment_ms)
        seed = zlib.crc32(f"{log.directory}/{log.segments[-1].base_offset}".encode())
        self.roll_ms = log.config.segment_ms - (seed % jitter_max if jitter_max else 0)

    def roll(self, now_ms: int) -> None:
        """Start a new segment, unless the active one is empty."""
        self._log.check_alive()
        self.begin_segment(now_ms)

    def roll_to(self, offset: int, now_ms: int) -> None:
        """Start a new segment at `offset`, which may be after the log end: then the log has a
        gap."""
        log = self._log
        log.check_alive()
        assert offset >= log.log_end_offset
        self.begin_segment(now_ms, offset)

    def _drop(self, segments: list[Segment]) -> None:
        """Rename the files of segments that will be removed, and close them. Raises OSError."""
        log = self._log
        for segment in segments:
            suffix, number = DELETED, 0
            # A log can begin twice at the same offset: do not replace the files that readers of the
            # earlier segment still use.
            while file_name(segment.base_offset, LOG + suffix) in self._deleted:
                number += 1
                suffix = f".{number}{DELETED}"
            for path in segment.rename(log.directory, suffix):
                self._deleted[path.rpartition("/")[2]] = None
            segment.close()
        log.names_changed = True

    def _drop_quietly(self, segments: list[Segment]) -> None:
        try:
            self._drop(segments)
        except OSError as e:
            raise self._log.die("drop an empty segment", e) from e

    def delete_before(self, offset: int, segments_max: int | None = None) -> int:
        """Move the start of the log forward to `offset` and drop the segments completely below it,
        at most `segments_max` if given (the rest in later calls). Returns how many were dropped.
        The caller checks the high watermark. Raises KafkaError(OFFSET_OUT_OF_RANGE) beyond the log
        end, StorageError."""
        log = self._log
        log.check_alive()
        if offset > log.log_end_offset:
            raise log.out_of_range(offset)
        segments = log.segments
        if offset <= log.log_start_offset:
            offset = log.log_start_offset
            if len(segments) == 1 or segments[1].base_offset > offset:
                return 0
        epochs, producers = log.epochs, log.producers  # before any change, since these may fail
        log.delete_to(offset)
        epochs.truncate_start(offset)
        producers.forget_before(offset)
        log.changed = True
        return self._drop_before(offset, segments_max)

    def delete_local_before(self, offset: int, segments_max: int | None = None) -> int:
        """Drop the segments completely below `offset`, which have copies in remote storage, at most
        `segments_max` if given. Returns how many were dropped. The start of the log and its leader
        epochs do not change; only the local records begin later. Raises StorageError."""
        log = self._log
        log.check_alive()
        return self._drop_before(min(offset, log.log_end_offset), segments_max)

    def _drop_before(self, offset: int, segments_max: int | None) -> int:
        log = self._log
        segments = log.segments
        count = sum(following.base_offset <= offset for following in segments[1:])
        count = count if segments_max is None else min(count, segments_max)
        if count:
            # Move the start before dropping: a reader finds either the new start or the segments.
            start = max(log.local_log_start_offset, segments[count].base_offset)
            log.local_log_start_offset = start
        log.segments = segments[count:]
        log.changed = True
        try:
            self._drop(segments[:count])
            first = log.segments[0].base_offset
            self._durability.remove_snapshots(
                [snapshot for snapshot in log.snapshots if snapshot < first]
            )
        except OSError as e:
            raise log.die("drop segments", e) from e
        return count

    def truncate_to(self, offset: int) -> bool:
        """Truncate the log to end at `offset`, or at the start of the batch that contains it.
        Returns whether any data was truncated. The recovery point may move back: the caller must
        checkpoint it before the next append. Raises StorageError."""
        log = self._log
        log.check_alive()
        if offset >= log.log_end_offset:
            # An epoch may begin at the log end: one in which this broker led and wrote nothing.
            log.truncate_epochs(log.log_end_offset)
            return False
        if offset < log.segments[0].base_offset:
            self.restart_at(offset)
            return True
        with self._durability.lock:
            self.finish_swap()
            try:
                keep = lookup.segment_index(log.segments, offset) + 1
                gone, log.segments = log.segments[keep:], log.segments[:keep]
                self._drop(gone)
                if gone:  # or a crash could bring them back after the truncated part
                    log.disk.sync_dir(log.directory)
                segment = log.segments[-1]
                if not segment.active:
                    segment.activate(0, log.config.segment_index_bytes)
                place = segment.locate(offset)
                if place is not None:
                    segment.truncate(place)
                    offset = min(offset, place.base_offset)
                self._end_at(offset)
            except OSError as e:
                raise log.die("truncate", e) from e
        log.truncate_epochs(offset)
        log.reload_producers()
        return True

    def restart_at(self, offset: int, now_ms: int | None = None) -> None:
        """Delete all segments and restart the log, empty, at `offset`: for a follower whose log
        ends before the leader's log starts. Raises StorageError."""
        log = self._log
        log.check_alive()
        with self._durability.lock:
            self.finish_swap()
            try:
                # Remove them first: after a crash, a remaining snapshot would have producers that
                # the log does not have.
                self._durability.remove_snapshots(log.snapshots.copy())
                self._drop(log.segments)
                now = log.opened_ms if now_ms is None else now_ms
                log.segments = [Segment(log.disk, log.directory, offset, {}, now)]
                self.create(log.segments[0])
                self._end_at(offset)
            except OSError as e:
                raise log.die("restart", e) from e
        log.begin_at(offset)
        log.producers = Producers(offset)
        log.replace_epochs(LeaderEpochs(), NO_EPOCH)

    def restart_after_remote(
        self,
        offset: int,
        log_start_offset: int,
        epochs: LeaderEpochs,
        producers: Producers,
        now_ms: int,
    ) -> None:
        """Delete all local segments and restart the log at `offset`, for a follower of a log that
        begins at `log_start_offset` in remote storage. `epochs` and `producers` are the state at
        `offset`. Everything is durable when this returns."""
        self.restart_at(offset, now_ms)
        log = self._log
        log.log_start_offset = log_start_offset
        log.producers = producers
        log.replace_epochs(epochs, epochs.latest)
        try:
            self._durability.write_snapshot(offset)
        except OSError as e:
            raise log.die("restart", e) from e
        self._durability.flush(force=True)

    def swap_in(self, base_offset: int, replaced: Sequence[Part], sizes: dict[str, int]) -> bool:
        """Replace the segments `replaced` with the compacted segment, whose `.cleaned` files are
        durable. Returns False, without any change, if they are no longer in the log (retention,
        truncation). Call this on the event loop, and then `step_swap`."""
        log = self._log
        log.check_alive()
        segments = log.segments
        at = lookup.segment_index(segments, base_offset)
        old = segments[at : at + len(replaced)]
        there = [(segment.base_offset, segment.size, segment.active) for segment in old]
        if (
            log.abandoned
            or at + len(replaced) >= len(segments)
            or there != [(part.base_offset, part.size, False) for part in replaced]
        ):
            return False
        self.finish_swap()
        new = Segment(log.disk, log.directory, base_offset, sizes, log.opened_ms, swap.CLEANED)
        new.modified_ms = old[-1].modified_ms
        try:
            swap.begin(new, log.directory)
        except OSError as e:
            raise log.die("swap segments", e) from e
        log.segments = [*segments[:at], new, *segments[at + len(old) :]]
        self._swap = swap.Swap(
            new, old, self._drop, lambda: log.directory, lambda s: s in log.segments
        )
        log.names_changed = log.changed = True
        return True

    def step_swap(self) -> bool:
        """Run the next step of a swap, after the directory was synced. Returns False if there is
        nothing to do. Call this on the event loop. Raises StorageError."""
        log = self._log
        if self._swap is None or self._swap.done or log.abandoned:
            self._swap = None
            return False
        try:
            self._swap.step()
        except OSError as e:
            if log.abandoned:
                return False
            raise log.die("swap segments", e) from e
        return True

    def finish_swap(self) -> None:
        """Finish a swap in progress, so that replaced segments cannot reappear after the change
        that follows."""
        log = self._log
        unfinished, self._swap = self._swap, None
        try:
            while unfinished is not None and not unfinished.done:
                log.disk.sync_dir(log.directory)
                unfinished.step()
        except OSError as e:
            raise log.die("swap segments", e) from e

    def _end_at(self, offset: int) -> None:
        """Record that the log was truncated at `offset`. Raises OSError."""
        log = self._log
        log.end_at(offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
        self._durability.cut(offset)
        log.changed = True
        self._set_roll_time()

    @property
    def deleted_files(self) -> list[str]:
        """The names of the files that wait for `remove_deleted`."""
        return list(self._deleted)

    def remove_deleted(self, names: list[str] | None = None) -> int:
        """Remove the files of dropped segments: those in `names`, which were `deleted_files` when
        `file.delete.delay.ms` began, or all. Returns how many. May run in a thread."""
        log = self._log
        with self._durability.lock:
            if log.abandoned:
                return 0  # the whole directory will be removed
            due = [n for n in (self._deleted if names is None else names) if n in self._deleted]
            try:
                for name in due:
                    self._deleted.pop(name, None)
                    with contextlib.suppress(FileNotFoundError):  # already removed
                        log.disk.remove(f"{log.directory}/{name}")
            except OSError as e:
                raise log.die("remove a segment", e) from e
        return len(due)
