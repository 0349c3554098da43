"""Makes a log durable: flushes, snapshots of its producers, and the recovery point.

A flush first reads the log end, then syncs everything below it, and only then moves the recovery
point. It may run in a thread while the loop appends.

A roll only freezes the state of many producers, and the next flush writes the snapshot. Until then,
recovery would begin before that snapshot in any case, since the recovery point does not move past
unwritten data.
"""

import contextlib
import logging
import threading
from collections.abc import Generator
from itertools import zip_longest

from pk.core.log import aborted, recovery
from pk.core.log.checkpoints import PARTITION_METADATA
from pk.core.log.producers import FrozenProducers
from pk.core.log.segment import SNAPSHOT, Segment, file_name
from pk.core.log.state import LogState

logger = logging.getLogger("pk.log")

SNAPSHOT_AT_ONCE = 1000
"""Snapshots of more producers are left to the next flush. Writing a snapshot of this many takes two
milliseconds."""


ASIDE = ".tmp"
"""The suffix of a file that will replace another. Such files are removed when a log is opened."""


class Durability:
    """Makes one log durable. Methods raise StorageError, unless they say otherwise."""

    __slots__ = (
        "_frozen",
        "_log",
        "_unsynced_snapshots",
        "created",
        "durable_offset",
        "lock",
        "recovery_point",
    )

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._unsynced_snapshots: list[int] = []
        self._frozen: dict[int, FrozenProducers] = {}
        """The snapshots that are not written yet, by offset."""
        self.lock = threading.RLock()
        """Held while files are synced, so that nothing is truncated or removed in the meantime."""
        self.recovery_point = 0
        """The offset from which recovery begins: the log below it, and everything derived from
        that, is on the disk."""
        self.durable_offset = 0
        """Records below this offset are on the disk. It is never below the recovery point."""
        self.created = False
        """Whether the name of the log's directory, and the names in it, may not be durable yet,
        because the log is new or was not closed."""

    def start(self, recovery_point: int) -> None:
        """Initialize the state of an opened log: everything below `recovery_point` is on the
        disk."""
        self.recovery_point = self.durable_offset = recovery_point

    def cut(self, offset: int) -> None:
        """Move the recovery point back and remove later snapshots, since the log was truncated at
        `offset`. Raises OSError."""
        self.recovery_point = min(self.recovery_point, offset)
        self.durable_offset = min(self.durable_offset, offset)
        self.remove_snapshots([snapshot for snapshot in self._log.snapshots if snapshot > offset])
        self._write_frozen()

    def flush(self, up_to: int | None = None, *, force: bool = False) -> None:
        """Make the log durable up to `up_to` (its end, if None) and move the recovery point there.

        May run in a thread while the loop appends; concurrent flushes wait for each other, and
        later ones have nothing left to do. `force` flushes even if the recovery point is already
        there. If a full disk has no room for indexes, epochs or snapshots, the records are durable
        all the same, and the recovery point stays until the next flush.
        """
        log = self._log
        with self.lock:
            if log.abandoned:
                return
            log.check_alive()
            end = log.log_end_offset
            target = end if up_to is None else min(up_to, end)
            if target <= self.recovery_point and not force and not self._frozen:
                return
            due = self._unsynced(target, force=force)
            whole = self._write_behind(due)
            try:
                for segment in due:
                    with self._unless_dropped(segment):
                        segment.sync()
                self._sync_state()
            except OSError as e:
                raise log.die("sync", e) from e
            target = min(target, log.log_end_offset)
            self.durable_offset = max(self.durable_offset, target)
            if whole:
                self.recovery_point = max(self.recovery_point, target)

    def prepare(self) -> bool:
        """Write everything that a flush of the whole log writes, without syncing. Returns False if
        the disk does not have room for all of it.

        Afterwards call `rename_epochs` and then `synced`, each after a sync of the file system; or
        call `flush`, which writes everything again. Nothing may be appended after this call. May
        run in a thread.
        """
        log = self._log
        with self.lock:
            log.check_alive()
            return self._write_behind(
                self._unsynced(log.log_end_offset, force=True), epochs_aside=True
            )

    def rename_epochs(self) -> None:
        """Rename the file of leader epochs to its final name. Call this once the data of `prepare`
        is on the disk, so that a crash leaves either the old or the new epochs."""
        log = self._log
        epochs = log.known_epochs
        if epochs is not None and epochs.dirty:
            path = f"{log.directory}/{recovery.EPOCHS_FILE}"
            try:
                log.disk.rename(path + ASIDE, path)
            except OSError as e:
                raise log.die("rename", e) from e

    def synced(self) -> None:
        """Mark the whole log as durable. Call this once the file system was synced after
        `rename_epochs`."""
        log = self._log
        with self.lock:
            for segment in log.segments:
                segment.txn_index.dirty = False
            if log.known_epochs is not None:
                log.known_epochs.dirty = False
            self._unsynced_snapshots.clear()
            self.created = log.names_changed = log.changed = False
            self.recovery_point = self.durable_offset = log.log_end_offset

    def _unsynced(self, target: int, *, force: bool) -> list[Segment]:
        """Return the segments with records between the recovery point and `target`. `force`
        includes the last segment in any case."""
        segments = self._log.segments
        return [
            segment
            for segment, following in zip_longest(segments, segments[1:])
            if (segment.size or segment.active)
            and (
                (force and following is None)
                or (
                    segment.base_offset < target
                    and (following is None or following.base_offset >= self.recovery_point)
                )
            )
        ]

    def _write_behind(self, segments: list[Segment], *, epochs_aside: bool = False) -> bool:
        """Write data whose writing was postponed: index entries, leader epochs and large snapshots.
        Returns False if the disk does not have room for all of it. With `epochs_aside` the epochs
        go to a temporary file, unsynced, for `rename_epochs`. May run in a thread."""
        log = self._log
        epochs = log.known_epochs
        try:
            self._write_frozen()
            for segment in segments:
                segment.write_indexes()
                with self._unless_dropped(segment):
                    aborted.keep(self._log, segment)
            path = f"{log.directory}/{recovery.EPOCHS_FILE}"
            if epochs is not None and epochs.dirty and epochs_aside:
                aside, content = log.disk.open(path + ASIDE), epochs.format()
                aside.pwrite(content, 0)
                aside.truncate(len(content))
                aside.close()
            elif epochs is not None and epochs.dirty:
                content, epochs.dirty = epochs.format(), False
                try:
                    log.disk.write(path, content, sync_name=False)
                    log.names_changed = True
                except OSError:
                    epochs.dirty = True
                    raise
        except OSError as e:
            if not (refused := log.refuse("write indexes and epochs", e)).undone:
                raise refused from e
            logger.warning("%s; its recovery point stays at %d", refused, self.recovery_point)
            return False
        return True

    @contextlib.contextmanager
    def _unless_dropped(self, segment: Segment) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            if segment in self._log.segments:
                raise

    def _sync_state(self) -> None:
        """Sync snapshots and directories. May run in a thread. Raises OSError."""
        log = self._log
        due, self._unsynced_snapshots = self._unsynced_snapshots, []
        for offset in due:
            if offset in log.snapshots:
                with contextlib.suppress(FileNotFoundError):  # then it is rebuilt from the log
                    log.disk.open(self._snapshot_path(offset)).sync()
        if self.created:
            self.created, log.names_changed = False, True
            metadata = f"{log.directory}/{PARTITION_METADATA}"
            if log.disk.exists(metadata):
                log.disk.open(metadata).sync()
            log.disk.sync_dir(log.directory.rpartition("/")[0])
        if log.names_changed:
            log.names_changed = False
            log.disk.sync_dir(log.directory)

    def sync_names(self) -> None:
        """Make the names in the log's directory durable. May run in a thread."""
        log = self._log
        try:
            log.disk.sync_dir(log.directory)
        except OSError as e:
            if not log.abandoned:
                raise log.die("sync a directory", e) from e

    def write_snapshot(self, offset: int) -> None:
        """Write a snapshot of the producers at the log end as the snapshot of `offset`, unsynced,
        and remove unneeded snapshots. The next flush writes it if there are many producers. Raises
        OSError."""
        log = self._log
        if len(log.producers) > SNAPSHOT_AT_ONCE:
            self._frozen[offset] = log.producers.freeze()
        else:
            log.disk.write(self._snapshot_path(offset), log.producers.snapshot(), sync=False)
            self._unsynced_snapshots.append(offset)
        bases = {segment.base_offset for segment in log.segments}
        if offset not in log.snapshots:
            log.snapshots.append(offset)
        log.names_changed = True
        self.remove_snapshots(
            [other for other in log.snapshots if other != offset and other not in bases]
        )

    def _write_frozen(self) -> None:
        """Write the postponed snapshots. The caller holds the lock, and may be in a thread. Raises
        OSError."""
        log = self._log
        for offset, frozen in list(self._frozen.items()):
            path = self._snapshot_path(offset)
            log.disk.write(path, frozen.snapshot(), sync=False)
            self._unsynced_snapshots.append(offset)
            log.names_changed = True
            if self._frozen.get(offset) is frozen:
                del self._frozen[offset]
            frozen.release()
            if offset not in log.snapshots:  # its segment was dropped in the meantime
                with contextlib.suppress(FileNotFoundError):
                    log.disk.remove(path)

    def remove_snapshots(self, offsets: list[int]) -> None:
        """Remove the snapshots at `offsets`. Raises OSError."""
        log = self._log
        for offset in offsets:
            log.snapshots.remove(offset)
            if (frozen := self._frozen.pop(offset, None)) is not None:
                frozen.release()
            with contextlib.suppress(FileNotFoundError):
                log.disk.remove(self._snapshot_path(offset))

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._log.directory}/{file_name(offset, SNAPSHOT)}"
