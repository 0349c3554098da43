"""The log of one partition: its segments, producers, leader epochs, and its first and last offsets.

A `Log` has parts that share one `LogState`: the `Appender` writes at the end, the `LogReader`
reads, `LogSegments` rolls, deletes, truncates and replaces segments, and `Durability` syncs them to
disk. `open_log` (log_loader.py) opens a log; the class here closes it, moves it, and marks its
damage.

Threads. One task (the event loop) appends, rolls and reads. At the same time, other threads may
call `Durability.flush` and the methods of `LogReader` that would wait for the disk; its `is_hot`
says whether `read` would. The caller of `truncate_to`, `restart_at`, `close` or `move_directory`
must prevent all other calls. This works because the list of segments is replaced, never changed;
files and arrays only grow; and `flush` reads the log end first, then syncs everything before it,
and only then moves the recovery point.

Failures. A failed write is undone (the file is cut to its previous size) and raises a
`StorageError`: a full disk refuses produce requests and does no other harm. If the undo fails, or a
sync does, the disk's contents are unknown. If the disk itself fails (`failures.is_fault`), nothing
on it can be trusted. In both cases the log is *dead*: every later call raises, and the caller must
take its directory out of service. A failed fsync is never retried, because the kernel may have
dropped the pages that it could not write.
"""

import errno

from pk.core.log import aborted, recovery
from pk.core.log.appender import Appended, Appender, Origin, Replicated
from pk.core.log.config import LogConfig
from pk.core.log.damaged import Damage, Keeper, Mark, copy_damage, kept_files, unmark
from pk.core.log.durability import Durability
from pk.core.log.failures import StorageError, storage_errors
from pk.core.log.log_dir import LogDir
from pk.core.log.log_reader import LogReader
from pk.core.log.log_segments import LogSegments
from pk.core.log.state import LogState
from pk.core.values import NO_OFFSET

__all__ = ["Appended", "Log", "Origin", "Replicated"]


class Log:
    """The log of one partition, opened by `open_log`. The top of this file explains threads and
    failures."""

    __slots__ = (
        "__weakref__",
        "appender",
        "closed_as",
        "damaged_segments",
        "durability",
        "kept_bytes",
        "log_dir",
        "mark",
        "reader",
        "recovered",
        "rewriting",
        "segments",
        "snapshot_bytes",
        "state",
    )

    log_dir: LogDir
    """The directory of `log.dirs` that has the log; set by `LogDirs`."""

    def __init__(self, state: LogState) -> None:
        """Called only by `open_log`."""
        self.state = state
        self.durability = Durability(state)
        self.segments = LogSegments(state, self.durability)
        self.appender = Appender(state, self.segments)
        self.reader = LogReader(state)
        self.recovered: recovery.RecoveryResult | None = None
        """The result of recovery, if the log was not closed cleanly."""
        self.closed_as: bytes | None = None
        """The document about the log's last close (closed_logs.py), if the log was opened by it."""
        self.mark: Mark | None = None
        """The damage that was found in the log, until the replica is in sync again."""
        self.damaged_segments: dict[int, str] = {}
        """Closed segments that were found damaged since the log was opened: base offset →
        description."""
        self.rewriting = False
        """Whether a compaction or a repair is writing `.cleaned` segments for this log. Only one at
        a time may do so."""
        self.kept_bytes = 0
        """The number of truncated bytes that are kept while the log is marked as damaged."""
        self.snapshot_bytes = 0
        """The size in bytes of the producer snapshot with which the log was opened."""

    def configure(self, config: LogConfig) -> None:
        """Apply new settings, from the next append on."""
        self.state.config = config
        self.segments.configure(config)
        self.appender.configure(config)

    def keep_from(self, offset: int) -> None:
        """Mark the log as damaged before it is truncated at `offset`, below committed records, and
        copy the data that will be truncated. Raises StorageError."""
        state = self.state
        with self.durability.lock, storage_errors(state.directory, "keep records"):
            keeper = Keeper(state.disk, state.directory, NO_OFFSET)
            keeper.keep(state.segments, offset)
            keeper.mark_damaged(Damage.CUT, offset, state.log_end_offset)
            self.mark = keeper.mark
            self.kept_bytes = sum(kept_files(state.disk, state.directory).values())

    def clear_mark(self, *, keep: bool = False) -> None:
        """Remove the mark once the replica is in sync again and, unless `keep` is set, the kept
        data too. Raises StorageError."""
        state = self.state
        with self.durability.lock, storage_errors(state.directory, "remove the kept data"):
            if not state.abandoned:
                unmark(state.disk, state.directory, keep=keep)
            self.mark = None

    def copy_damage(self, other: "Log") -> None:
        """Copy the mark and the truncated data of `other`, of which this log is a copy. Raises
        StorageError."""
        state, source = self.state, other.state
        with other.durability.lock, storage_errors(state.directory, "copy the kept data"):
            copy_damage(state.disk, state.directory, source.disk, source.directory)
            self.mark, self.kept_bytes = other.mark, other.kept_bytes

    def has_same_damage(self, other: "Log") -> bool:
        """Return whether `copy_damage` would change nothing."""
        return (self.mark, self.kept_bytes) == (other.mark, other.kept_bytes)

    def close(self) -> None:
        """Sync everything, so that the next start needs no recovery, and close the files. Raises
        StorageError."""
        durability = self.durability
        with durability.lock:
            # A new epoch by itself needs no sync: 10,000 partitions get new epochs at every start,
            # and most of them write nothing.
            if self._finish():
                durability.flush(force=True)
                if durability.recovery_point < self.state.log_end_offset:
                    raise self._no_room()
            self._close_files()

    def prepare_close(self) -> bool:
        """Write the data that `close` would sync, without syncing it. Returns whether there is
        anything to sync. Syncing many logs at once is much faster (`Durability.rename_epochs`,
        `synced`). Nothing may be appended after this call. Raises StorageError."""
        with self.durability.lock:
            unsynced = self._finish()
            if unsynced and not self.durability.prepare():
                raise self._no_room()
            return unsynced

    def _no_room(self) -> StorageError:
        return self.state.refuse("close", OSError(errno.ENOSPC, "no room for indexes"))

    def _close_files(self) -> None:
        for segment in self.state.segments:
            segment.close()

    def _finish(self) -> bool:
        """Finish the active segment, and write the producer snapshot. Returns whether something is
        not synced yet."""
        state, durability = self.state, self.durability
        if state.dead is not None:
            return False
        self.segments.finish_swap()
        active = state.segments[-1]
        if active.active:
            try:
                active.finish()
            except OSError as e:
                raise state.refuse("truncate the allocated space", e) from e
        behind = durability.recovery_point < state.log_end_offset
        changed = state.changed or behind or state.names_changed
        try:
            aborted.keep(state, *state.segments)
            if changed and active.size:
                durability.write_snapshot(state.log_end_offset)
        except OSError as e:
            raise state.refuse("close", e) from e
        return changed

    def abandon(self) -> None:
        """Close the files of a log that will be deleted or opened again, after any flush in
        progress. Nothing is written or synced afterwards."""
        with self.durability.lock:
            self.state.abandoned = True
            self._close_files()

    def move_directory(self, directory: str) -> None:
        """Rename the partition's directory. Reads in progress continue. Raises StorageError."""
        state = self.state
        try:
            state.disk.rename(state.directory, directory)
        except OSError as e:
            raise state.die("rename the directory", e) from e
        for segment in state.segments:
            segment.moved(directory)
        state.directory = directory
