"""What a log consists of on the disk, and the operations that change that: open, roll, cut, drop, sync, close.

`Log` (log.py) appends to it and reads from it; who may call what, from which thread, and what a failing disk does, is
written there.
"""

import contextlib
import errno
import logging
import threading
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, Self

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log import aborted, lookup, recovery, swap
from pk.core.log.checkpoints import PARTITION_METADATA
from pk.core.log.config import LOG_APPEND_TIME, LogConfig
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.failures import StorageError, storage_errors
from pk.core.log.files import Disk
from pk.core.log.logdir import LogDir
from pk.core.log.producers import EMPTY_SNAPSHOT_BYTES, Producers
from pk.core.log.segment import DELETED, LOG, SNAPSHOT, Segment, file_name
from pk.core.log.txnindex import AbortedTxn
from pk.core.values import TopicPartition, Uuid

logger = logging.getLogger("pk.log")

INT32_MAX: Final = (1 << 31) - 1


class StoredLog:
    """The segments of one partition, its producers' state and leader epochs. Made by `open`."""

    log_dir: LogDir
    """The directory of `log.dirs` that it lies in; set by `LogDirs`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        tp: TopicPartition,
        config: LogConfig,
        topic_id: Uuid,
        segments: list[Segment],
    ) -> None:
        """For `open` only."""
        self.disk = disk
        self.directory = directory
        self.tp = tp
        self.topic_id = topic_id
        self.segments = segments
        """In order, never empty; the last is active. Replaced, never changed."""
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        """Where recovery begins: below it the log, and all that is derived from it, is on the disk."""
        self.durable_offset = 0
        """Below it the records are on the disk; at or after the recovery point."""
        self.recovered: recovery.Cut | None = None
        """What recovery had to cut, if the log was not closed cleanly."""
        self.dead: StorageError | None = None
        self.snapshots: list[int] = []
        self.snapshot_bytes = 0  # that of the producers' state with which it was opened
        self._deleted: dict[str, None] = {}
        self._has_epochs_file = False
        self._epochs: LeaderEpochs | None = None
        self._latest_epoch = -2
        """The epoch of the last append, which is noted; -2 before the first."""
        self._producers: Producers | None = None
        self.opened_ms = 0
        self.names_changed = False
        self._unsynced_snapshots: list[int] = []
        self._touched = False
        self._abandoned = False
        self.created = False
        """Whether its names, and its own, are perhaps not durable yet: it is new, or was not closed."""
        self.first_dirty_offset: int | None = None
        """Up to where the log is compacted; None where that is not known."""
        self._swap: swap.Swap | None = None
        self._flush_lock = threading.RLock()
        self.config = config

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        tp: TopicPartition,
        config: LogConfig,
        *,
        topic_id: Uuid,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool,
        now_ms: int,
        progress: recovery.Progress | None = None,
    ) -> Self:
        """Open the log in `directory`, which exists; an empty one becomes an empty log. `clean`: it was closed by
        `close`; else it is checked and mended, and `progress` told how far that is. Raises StorageError."""
        with storage_errors(directory, "open"):
            found = recovery.find(disk, directory)
            if found.swaps:
                swap.complete(disk, directory, found.swaps, now_ms)
                found = recovery.find(disk, directory)
            for name in found.leftovers:
                disk.remove(f"{directory}/{name}")
            segments = []
            for base, sizes in sorted(found.segments.items()):
                segment = Segment(disk, directory, base, sizes, now_ms)
                segment.modified_ms = found.modified_ms[base]
                segments.append(segment)
            if new := not segments:
                segments.append(Segment(disk, directory, log_start_offset, {}, now_ms))
            self = cls(disk, directory, tp, config, topic_id, segments)
            self.opened_ms = now_ms
            self.snapshots = found.snapshots
            self._has_epochs_file = found.has_epochs
            if new:
                segments[0].activate(self._allocate_bytes, self.config.segment_index_bytes)
                self.names_changed = self._touched = True
                self._producers, self._epochs = Producers(log_start_offset), LeaderEpochs()
                self.log_end_offset = log_start_offset
            elif clean:
                if (end := recovery.clean_end_offset(found, segments, recovery_point)) is None:
                    end = recovery.walked_end_offset(segments[-1])
                self.log_end_offset = end
                self.snapshot_bytes = found.snapshot_bytes.get(end, 0)
                if self.snapshot_bytes == EMPTY_SNAPSHOT_BYTES:
                    self._producers = Producers(end)
            else:
                self._recover(recovery_point, progress)
            self.log_start_offset = min(
                max(log_start_offset, self.segments[0].base_offset), self.log_end_offset
            )
            if not clean and not new:
                self._rebuild(recovery_point)
            self.recovery_point = self.durable_offset = min(recovery_point, self.log_end_offset)
            return self

    def _recover(self, recovery_point: int, progress: recovery.Progress | None) -> None:
        self._touched = True
        interval = self.config.index_interval_bytes
        self.segments, self.recovered = recovery.recover(
            self.disk, self.directory, self.segments, recovery_point, interval, progress
        )
        self.segments[-1].allocate_indexes(self._index_bytes_max)
        self.log_end_offset = self.recovered.end_offset

    def _rebuild(self, recovery_point: int) -> None:
        """Producers, aborted transactions and leader epochs of a log that was not closed."""
        first = self.segments[recovery.suspect_from(self.segments, recovery_point)]
        self._remove_snapshots([offset for offset in self.snapshots if offset > first.base_offset])
        self._producers, ended = self._load_producers()
        for transaction in ended:
            if transaction.last_offset >= first.base_offset:
                self._segment_of(transaction.last_offset).txn_index.append(transaction)
        epochs = self.epochs
        epochs.truncate_end(first.base_offset)  # the batches say it better
        for header, _ in recovery.batches_between(
            self.segments, first.base_offset, self.log_end_offset
        ):
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
        epochs.truncate_start(self.log_start_offset)

    def close(self) -> None:
        """Make everything durable, so that the log opens without a read, and let its files go. Raises StorageError."""
        if self.dead is not None:
            for segment in self.segments:
                segment.close()
            return
        with self._flush_lock:
            self._finish_swap()
            active = self.segments[-1]
            if active.active:
                try:
                    active.finish()
                except OSError as e:
                    raise self._refuse("give room back", e) from e
            behind = self.recovery_point < self.log_end_offset
            changed = self._touched or behind or self.names_changed
            try:
                aborted.keep(self, *self.segments)
                if changed and active.size:
                    self._write_snapshot(self.log_end_offset)
            except OSError as e:
                raise self._refuse("close", e) from e
            if changed:  # not for a new epoch alone: 10,000 partitions get one at every start, most write nothing
                self.flush(force=True)
                if self.recovery_point < self.log_end_offset:
                    raise self._refuse("close", OSError(errno.ENOSPC, "no room for indexes"))
            for segment in self.segments:
                segment.close()

    @property
    def starts_inside_segment(self) -> bool:
        """Whether a checkpoint must tell its start: it is not the first segment's, or a crash could bring segments back
        that lay before it."""
        first = self.segments[0].base_offset
        return self.log_start_offset > (0 if self.names_changed else first)

    def abandon(self) -> None:
        """Let the files go of a log that is to be removed; a flush under way ends first."""
        with self._flush_lock:
            self._abandoned = True
            for segment in self.segments:
                segment.close()

    @property
    def config(self) -> LogConfig:
        """The settings; assigning others changes the log's behaviour from the next append on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._segment_bytes = min(config.segment_bytes, INT32_MAX)
        self._index_bytes_max = config.segment_index_bytes - config.segment_index_bytes % 12
        self._interval = config.index_interval_bytes
        self._allocate_bytes = self._segment_bytes if config.preallocate else 0
        self._message_bytes_max = config.max_message_bytes
        self._append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._set_roll_time()

    def _activate(self, segment: Segment) -> None:
        """Before the first append. The producers too: read later, they would find that append in the log already."""
        self._touched = True
        self.producers  # noqa: B018
        try:
            segment.activate(0, self.config.segment_index_bytes)
        except OSError as e:
            raise self._refuse("read an index", e) from e

    def _must_roll(
        self, segment: Segment, size: int, last_offset: int, latest: int, now_ms: int
    ) -> bool:
        if last_offset - segment.base_offset > INT32_MAX:
            return True
        if not segment.size:
            return False
        if (
            segment.size + size > self._segment_bytes
            or segment.index_bytes >= self._index_bytes_max
        ):
            return True
        first = segment.first_timestamp
        if first is not None and first >= 0:
            return latest - first > self._roll_ms
        return now_ms - segment.created_ms > self._roll_ms

    def _roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        base_offset = self.log_end_offset if base_offset is None else base_offset
        old = self.segments[-1]
        if not old.size and old.base_offset == base_offset:
            return old
        segment = Segment(self.disk, self.directory, base_offset, {}, now_ms)
        try:
            if not old.active:
                old.activate()
            old.seal()
            old.write_indexes()
            self._write_snapshot(base_offset)
            segment.activate(self._allocate_bytes, self.config.segment_index_bytes)
            old.trim()
        except OSError as e:
            raise self._refuse("roll", e) from e
        if old.size:
            old.modified_ms = now_ms
            old.rest()
            self.segments = [*self.segments, segment]
        else:
            self.segments = [*self.segments[:-1], segment]
            self._drop_quietly([old])
        self.log_end_offset = base_offset
        self.names_changed = self._touched = True
        self._set_roll_time()
        return segment

    def _set_roll_time(self) -> None:
        """When the active segment is too old. The jitter, which spreads the rolls of many partitions, is no chance but
        a number that belongs to the segment."""
        jitter_max = min(self._config.segment_jitter_ms, self._config.segment_ms)
        seed = zlib.crc32(f"{self.directory}/{self.segments[-1].base_offset}".encode())
        self._roll_ms = self._config.segment_ms - (seed % jitter_max if jitter_max else 0)

    def _segment_of(self, offset: int) -> Segment:
        return self.segments[lookup.segment_index(self.segments, offset)]

    def _drop(self, segments: list[Segment]) -> None:
        """Rename the files of segments for removal, and let them go. Raises OSError."""
        for segment in segments:
            suffix, number = DELETED, 0
            # A log can begin twice at an offset: the readers of each are left alone.
            while file_name(segment.base_offset, LOG + suffix) in self._deleted:
                number += 1
                suffix = f".{number}{DELETED}"
            for path in segment.rename(self.directory, suffix):
                self._deleted[path.rpartition("/")[2]] = None
            segment.close()
        self.names_changed = True

    def _drop_quietly(self, segments: list[Segment]) -> None:
        try:
            self._drop(segments)
        except OSError as e:
            raise self._die("drop an empty segment", e) from e

    def delete_before(self, offset: int, segments_max: int | None = None) -> int:
        """Move the start of the log up to `offset` and drop the segments that lie wholly below, `segments_max` of them if
        that is given (the rest with the next call); how many. The caller checks the high watermark. Raises
        KafkaError(OFFSET_OUT_OF_RANGE) beyond the end, StorageError."""
        if self.dead is not None:
            raise self.dead
        if offset > self.log_end_offset:
            raise self._out_of_range(offset)
        segments = self.segments
        if offset <= self.log_start_offset:
            offset = self.log_start_offset
            if len(segments) == 1 or segments[1].base_offset > offset:
                return 0
        epochs, producers = self.epochs, self.producers  # first: these may fail, with nothing done
        self.log_start_offset = offset
        count = sum(following.base_offset <= offset for following in segments[1:])
        count = count if segments_max is None else min(count, segments_max)
        self.segments = segments[count:]
        self._touched = True
        epochs.truncate_start(offset)
        producers.forget_before(offset)
        try:
            self._drop(segments[:count])
            first = self.segments[0].base_offset
            self._remove_snapshots([snapshot for snapshot in self.snapshots if snapshot < first])
        except OSError as e:
            raise self._die("drop segments", e) from e
        return count

    def truncate_to(self, offset: int) -> bool:
        """Cut the log so that it ends at `offset`, or at the begin of the batch that holds it; whether there was
        anything to cut. The recovery point may fall: the caller writes its checkpoint before the next append. Raises
        StorageError."""
        if self.dead is not None:
            raise self.dead
        if offset >= self.log_end_offset:
            # An epoch may begin at the end: that of a leadership of ours in which nothing was written.
            self.epochs.truncate_end(self.log_end_offset)
            self._latest_epoch = self.epochs.latest
            return False
        if offset < self.segments[0].base_offset:
            self.restart_at(offset)
            return True
        with self._flush_lock:
            self._finish_swap()
            try:
                keep = lookup.segment_index(self.segments, offset) + 1
                gone, self.segments = self.segments[keep:], self.segments[:keep]
                self._drop(gone)
                if gone:  # or a crash could bring them back behind what is cut off now
                    self.disk.sync_dir(self.directory)
                segment = self.segments[-1]
                if not segment.active:
                    segment.activate(0, self.config.segment_index_bytes)
                place = segment.locate(offset)
                if place is not None:
                    segment.truncate(place)
                    offset = min(offset, place.base_offset)
                self._ends_at(offset)
            except OSError as e:
                raise self._die("truncate", e) from e
        self.epochs.truncate_end(offset)
        self._latest_epoch = self.epochs.latest
        self.log_start_offset = min(self.log_start_offset, offset)
        self._producers = None
        self.producers  # noqa: B018  read now: the next append must not find itself in the log
        return True

    def restart_at(self, offset: int, now_ms: int | None = None) -> None:
        """Drop everything and begin anew, empty, at `offset`: a follower whose log ends before the leader's begins.
        Raises StorageError."""
        if self.dead is not None:
            raise self.dead
        with self._flush_lock:
            self._finish_swap()
            try:
                self._drop(self.segments)
                now = self.opened_ms if now_ms is None else now_ms
                self.segments = [Segment(self.disk, self.directory, offset, {}, now)]
                self.segments[0].activate(self._allocate_bytes, self.config.segment_index_bytes)
                self._remove_snapshots(self.snapshots.copy())
                self._ends_at(offset)
            except OSError as e:
                raise self._die("restart", e) from e
        self.log_start_offset = offset
        self._producers = Producers(offset)
        self._epochs = LeaderEpochs()
        self._epochs.dirty = True
        self._latest_epoch = -1

    def _finish_swap(self) -> None:
        """Bring a swap under way to its end: what it replaced must not come back after what follows now."""
        unfinished, self._swap = self._swap, None
        try:
            while unfinished is not None and not unfinished.done:
                self.disk.sync_dir(self.directory)
                unfinished.step()
        except OSError as e:
            raise self._die("swap segments", e) from e

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = offset
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.durable_offset = min(self.durable_offset, offset)
        self._remove_snapshots([snapshot for snapshot in self.snapshots if snapshot > offset])
        self._touched = True
        self._set_roll_time()

    def move_directory(self, directory: str) -> None:
        """Rename the partition's directory. Readers in flight go on. Raises StorageError."""
        try:
            self.disk.rename(self.directory, directory)
        except OSError as e:
            raise self._die("rename the directory", e) from e
        for segment in self.segments:
            segment.moved(directory)
        self.directory = directory

    def flush(self, up_to: int | None = None, *, force: bool = False) -> None:
        """Make the log durable up to `up_to` (its end, if None) and move the recovery point there.

        May run in a thread while the loop appends; several at once wait for each other, and those that come late find
        their work done. With `force` also when the recovery point is there already. Where a full disk has no room for what
        is written beside the records, these are durable all the same, and the recovery point waits for the next flush.
        Raises StorageError.
        """
        with self._flush_lock:
            if self._abandoned:
                return
            if self.dead is not None:
                raise self.dead
            end = self.log_end_offset
            target = end if up_to is None else min(up_to, end)
            if target <= self.recovery_point and not force:
                return
            segments = self.segments
            due = [
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
            whole = self._write_behind(due)
            try:
                for segment in due:
                    with self._unless_dropped(segment):
                        segment.sync()
                self._sync_state()
            except OSError as e:
                raise self._die("sync", e) from e
            target = min(target, self.log_end_offset)
            self.durable_offset = max(self.durable_offset, target)
            if whole:
                self.recovery_point = max(self.recovery_point, target)

    def _write_behind(self, segments: list[Segment]) -> bool:
        """Write what was not written when it happened: index entries and leader epochs. In a thread, perhaps. False where
        the disk has no room for all of it. Raises StorageError."""
        epochs = self._epochs
        try:
            for segment in segments:
                segment.write_indexes()
                with self._unless_dropped(segment):
                    aborted.keep(self, segment)
            if epochs is not None and epochs.dirty:
                content, epochs.dirty = epochs.format(), False
                try:
                    path = f"{self.directory}/{recovery.EPOCHS_FILE}"
                    self.disk.write(path, content, sync_name=False)
                    self.names_changed = True
                except OSError:
                    epochs.dirty = True
                    raise
        except OSError as e:
            if not (refused := self._refuse("write indexes and epochs", e)).undone:
                raise refused from e
            logger.warning("%s; its recovery point stays at %d", refused, self.recovery_point)
            return False
        return True

    @contextlib.contextmanager
    def _unless_dropped(self, segment: Segment) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if segment in self.segments:
                raise

    def _sync_state(self) -> None:
        """Snapshots and names. In a thread, perhaps."""
        due, self._unsynced_snapshots = self._unsynced_snapshots, []
        for offset in due:
            if offset in self.snapshots:
                with contextlib.suppress(FileNotFoundError):  # then it is read from the log
                    self.disk.open(self._snapshot_path(offset)).sync()
        if self.created:
            self.created, self.names_changed = False, True
            metadata = f"{self.directory}/{PARTITION_METADATA}"
            if self.disk.exists(metadata):
                self.disk.open(metadata).sync()
            self.disk.sync_dir(self.directory.rpartition("/")[0])
        if self.names_changed:
            self.names_changed = False
            self.disk.sync_dir(self.directory)

    def _write_snapshot(self, offset: int) -> None:
        """The state of producers at the end of the log, unsynced, under the name of `offset`; and out with snapshots
        nobody needs. Raises OSError."""
        self.disk.write(self._snapshot_path(offset), self.producers.snapshot(), sync=False)
        bases = {segment.base_offset for segment in self.segments}
        if offset not in self.snapshots:
            self.snapshots.append(offset)
        self._unsynced_snapshots.append(offset)
        self.names_changed = True
        self._remove_snapshots(
            [other for other in self.snapshots if other != offset and other not in bases]
        )

    def _remove_snapshots(self, offsets: list[int]) -> None:
        for offset in offsets:
            self.snapshots.remove(offset)
            with contextlib.suppress(FileNotFoundError):
                self.disk.remove(self._snapshot_path(offset))

    def _snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT)}"

    def _refuse(self, action: str, cause: OSError) -> StorageError:
        """A failure that left the log as it was, if it is for want of space, or of what this process has too few of; else
        the log is dead."""
        error = StorageError(self.directory, action, cause, undone=True)
        return error if error.is_passing else self._die(action, cause)

    def _die(self, action: str, cause: OSError) -> StorageError:
        error = StorageError(self.directory, action, cause)
        self.dead = self.dead or error
        return error

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.tp} holds {self.log_start_offset} to {self.log_end_offset}, not {offset}",
        )

    @property
    def producers(self) -> Producers:
        """The state of this log's producers, read at first use. Raises StorageError."""
        if self._producers is None:
            with storage_errors(self.directory, "read the state of producers"):
                self._producers, _ = self._load_producers()
        return self._producers

    def _load_producers(self) -> tuple[Producers, list[AbortedTxn]]:
        return recovery.load_producers(
            self.disk,
            self.directory,
            self.snapshots,
            self.segments,
            self.log_start_offset,
            self.log_end_offset,
            self.opened_ms,
        )

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs of this log, read at first use. Raises StorageError."""
        if self._epochs is None:
            with storage_errors(self.directory, "read the leader epochs"):
                self._epochs = recovery.load_epochs(
                    self.disk,
                    self.directory,
                    self._has_epochs_file,
                    self.segments,
                    self.log_end_offset,
                )
        return self._epochs

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        self.epochs.assign(epoch, start_offset)
        self._latest_epoch = epoch
