"""The log of one partition: segments, what is known of its producers and leader epochs, and where it begins and ends.

Who may call what, from where. One task (the event loop) appends, rolls and reads. These may run in a thread meanwhile:
`flush`, and the reads (`read`, `offset_for_time`, `max_timestamp`, `aborted_transactions`) where they would wait for a
disk: `is_hot` tells. `truncate_to`, `restart_at`, `close` and the move of its directory exclude all others: their caller
sees to that. What makes it work: the list of segments is replaced, never changed; files and arrays only grow; `flush`
notes the end of the log first, syncs what lies below, and only then moves the recovery point.

Failures. A write that fails is taken back (the file cut to its size before) and raises a `StorageError` that says so:
a full disk refuses produces and harms nothing. If that fails too, or a sync does, what is on the disk is unknown: the log
is *dead*, every later call raises, and its directory is to be taken out of service. A failed fsync is never tried again:
the kernel may have dropped the pages it could not write.
"""

import threading
import zlib
from enum import IntEnum
from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log import lookup, recovery
from pk.core.log.config import LOG_APPEND_TIME, LogConfig
from pk.core.log.epochs import EpochEnd, LeaderEpochs
from pk.core.log.failures import StorageError
from pk.core.log.files import Data, Disk
from pk.core.log.lookup import FetchSlice, FoundTimestamp
from pk.core.log.producers import EMPTY_SNAPSHOT_BYTES, Producers
from pk.core.log.segment import DELETED, SNAPSHOT, Segment, file_name
from pk.core.log.slices import EMPTY
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    CorruptBatch,
    Record,
    Timestamps,
    assign,
    check_crc,
    iter_headers,
    records,
)
from pk.core.values import TopicPartition, Uuid

INT32_MAX: Final = (1 << 31) - 1


class Origin(IntEnum):
    """Who wrote a batch: coordinators may write control batches, and their data is not judged by sequence."""

    CLIENT = 0
    COORDINATOR = 1


class Appended(NamedTuple):
    """Where a batch went. `log_append_time_ms` is -1 under CreateTime."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    rolled: bool = False
    """Whether a new segment was begun: time to flush the old one, off the loop."""


class Replicated(NamedTuple):
    """What `append_as_follower` took."""

    first_offset: int
    last_offset: int
    bytes: int
    rolled: bool


class Log:
    """See the top of this file. Made by `open`."""

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
        self.recovered: recovery.Cut | None = None
        """What recovery had to cut, if the log was not closed cleanly."""
        self.dead: StorageError | None = None
        self.snapshots: list[int] = []
        self._deleted: list[str] = []
        self._has_epochs_file = False
        self._epochs: LeaderEpochs | None = None
        self._latest_epoch = -2
        """The epoch of the last append, which is noted; -2 before the first."""
        self._producers: Producers | None = None
        self._now_ms = 0
        self._names_changed = False
        self._unsynced_snapshots: list[int] = []
        self._touched = False
        self._flush_lock = threading.RLock()
        self.config = config

    # --- opening and closing ---

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
    ) -> "Log":
        """Open the log in `directory`, which exists; an empty one becomes an empty log. `clean`: it was closed by
        `close`; else it is checked and mended. Raises StorageError."""
        try:
            return cls._open(
                disk,
                directory,
                tp,
                config,
                topic_id,
                recovery_point,
                log_start_offset,
                clean,
                now_ms,
            )
        except OSError as e:
            raise StorageError(directory, "open", e) from e

    @classmethod
    def _open(
        cls,
        disk: Disk,
        directory: str,
        tp: TopicPartition,
        config: LogConfig,
        topic_id: Uuid,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        now_ms: int,
    ) -> "Log":
        found = recovery.find(disk, directory)
        for name in found.leftovers:
            disk.remove(f"{directory}/{name}")
        segments = []
        for base, sizes in sorted(found.segments.items()):
            segment = Segment(disk, directory, base, sizes, now_ms)
            segment.modified_ms = found.modified_ms[base]
            segments.append(segment)
        new = not segments
        if new:
            segments.append(Segment(disk, directory, log_start_offset, {}, now_ms))
        self = cls(disk, directory, tp, config, topic_id, segments)
        self._now_ms = now_ms
        self.snapshots = found.snapshots
        self._has_epochs_file = found.has_epochs
        if new:
            segments[0].activate()
            self._names_changed = self._touched = True
            self.log_end_offset = log_start_offset
        elif clean:
            end = recovery.clean_end_offset(found, segments, recovery_point)
            self.log_end_offset = recovery.walked_end_offset(segments[-1]) if end is None else end
            if found.snapshot_bytes.get(self.log_end_offset) == EMPTY_SNAPSHOT_BYTES:
                self._producers = Producers(self.log_end_offset)
        else:
            self._recover(recovery_point)
        self.log_start_offset = min(
            max(log_start_offset, self.segments[0].base_offset), self.log_end_offset
        )
        if not clean and not new:
            self._rebuild(recovery_point)
        self.recovery_point = min(recovery_point, self.log_end_offset)
        return self

    def _recover(self, recovery_point: int) -> None:
        self._touched = True
        interval = self.config.index_interval_bytes
        self.segments, self.recovered = recovery.recover(
            self.disk, self.directory, self.segments, recovery_point, interval
        )
        self.log_end_offset = self.recovered.end_offset

    def _rebuild(self, recovery_point: int) -> None:
        """Producers, aborted transactions and leader epochs of a log that was not closed."""
        first = self.segments[recovery.suspect_from(self.segments, recovery_point)]
        self._remove_snapshots([offset for offset in self.snapshots if offset > first.base_offset])
        self._producers, aborted = self._load_producers()
        for transaction in aborted:
            if transaction.last_offset >= first.base_offset:
                self._segment_of(transaction.last_offset).txn_index.append(transaction)
        epochs = self.epochs
        epochs.truncate_end(self.log_end_offset)
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
            active = self.segments[-1]
            if active.active:
                active.seal()
            changed = (
                self._touched or self.recovery_point < self.log_end_offset or self._names_changed
            )
            if changed and active.size:
                self._write_snapshot()
            if changed or self.epochs_dirty:
                self.flush(force=True)
            for segment in self.segments:
                segment.close()

    @property
    def epochs_dirty(self) -> bool:
        """Whether leader epochs were assigned that are not in their file yet."""
        return self._epochs is not None and self._epochs.dirty

    # --- settings ---

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
        self._message_bytes_max = config.max_message_bytes
        self._append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._set_roll_time()

    # --- appending ---

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        timestamps: Timestamps | None = None,
    ) -> Appended:
        """Give the one batch in `batch` its offsets, in place, and write it.

        The records inside have been looked at by the caller, who passes on the timestamps found there. Raises
        KafkaError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, what
        `Producers.check` raises, and StorageError.
        """
        if self.dead is not None:
            raise self.dead
        base, size, _, _, _, attributes, delta, _, latest, producer_id, _, sequence, count = header
        if size > self._message_bytes_max or size > self._segment_bytes:
            raise self._too_large(size)
        check_crc(batch, 0, header)
        if (
            delta != count - 1
            or count <= 0
            or size != len(batch)
            or (
                origin is Origin.CLIENT
                and (base or attributes & CONTROL_BIT or (producer_id >= 0 and sequence < 0))
            )
        ):
            raise _invalid(header, len(batch))
        if timestamps is not None:
            latest = timestamps.latest
        marker = None
        if producer_id >= 0:
            if attributes & CONTROL_BIT:
                marker = next(records(batch, header))
                self.producers.check_marker(header, marker)
            elif sequence >= 0 and (repeated := self.producers.check(header)) is not None:
                time_ms = repeated.timestamp if self._append_time else -1
                return Appended(
                    repeated.first_offset,
                    repeated.last_offset,
                    time_ms,
                    self.log_start_offset,
                    True,
                )
        base_offset = self.log_end_offset
        last_offset = base_offset + delta
        if self._append_time:
            latest = log_append_time_ms = now_ms
            assign(batch, 0, base_offset, leader_epoch, now_ms)
        else:
            log_append_time_ms = -1
            if (
                latest > now_ms + self._after_max_ms
                or attributes & LOG_APPEND_TIME_BIT
                or now_ms > self._before_max_ms
            ):
                self._check_timestamps(header, timestamps, now_ms)
            if latest == header.max_timestamp:
                assign(batch, 0, base_offset, leader_epoch)
            else:
                assign(batch, 0, base_offset, leader_epoch, max_timestamp=latest)
        segment = self.segments[-1]
        if not segment.active:
            self._activate(segment)
        rolled = self._must_roll(segment, size, last_offset, latest, now_ms)
        if rolled:
            segment = self._roll(now_ms)
        position = segment.size
        try:
            segment.append(batch, base_offset, last_offset, latest, self._interval)
        except OSError as e:
            self._undo(segment, position, e)
        self.log_end_offset = last_offset + 1
        if leader_epoch != self._latest_epoch:
            self._note_epoch(leader_epoch, base_offset)
        if producer_id >= 0:
            if marker is None:
                self.producers.update(header, base_offset, latest, now_ms)
            else:
                self._end_transaction(segment, header, marker, last_offset, now_ms)
        return Appended(
            base_offset, last_offset, log_append_time_ms, self.log_start_offset, False, rolled
        )

    def append_as_follower(self, data: Data, now_ms: int) -> Replicated:
        """Write the whole batches in `data` as the leader gave them, offsets and epochs included; one that is cut off
        at the end is left out.

        Raises CorruptBatch, KafkaError(OFFSET_OUT_OF_RANGE) for a batch that begins below the end of the log, and
        StorageError. Batches before the one that is refused are written.
        """
        if self.dead is not None:
            raise self.dead
        first, written, rolled = -1, 0, False
        with memoryview(data) as view:
            for position, header in iter_headers(view):
                if header.base_offset < self.log_end_offset:
                    raise KafkaError(
                        ErrorCode.OFFSET_OUT_OF_RANGE,
                        f"{self.tp} ends at {self.log_end_offset}, the batch begins at {header.base_offset}",
                    )
                check_crc(view, position, header)
                with view[position : position + header.size] as batch:
                    rolled |= self._append_replicated(batch, header, now_ms)
                first = header.base_offset if first < 0 else first
                written += header.size
        return Replicated(first, self.log_end_offset - 1, written, rolled)

    def _append_replicated(self, batch: memoryview, header: BatchHeader, now_ms: int) -> bool:
        segment, size = self.segments[-1], header.size
        if not segment.active:
            self._activate(segment)
        rolled = self._must_roll(segment, size, header.last_offset, header.max_timestamp, now_ms)
        if rolled:
            segment = self._roll(now_ms, header.base_offset)
        position = segment.size
        try:
            segment.append(
                batch, header.base_offset, header.last_offset, header.max_timestamp, self._interval
            )
        except OSError as e:
            self._undo(segment, position, e)
        self.log_end_offset = header.next_offset
        if header.leader_epoch != self._latest_epoch:
            self._note_epoch(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            if header.attributes & CONTROL_BIT:
                marker = next(records(batch, header), None)
                if marker is not None:
                    self._end_transaction(segment, header, marker, header.last_offset, now_ms)
            else:
                self.producers.update(header, header.base_offset, header.max_timestamp, now_ms)
        return rolled

    def _end_transaction(
        self, segment: Segment, header: BatchHeader, marker: Record, offset: int, now_ms: int
    ) -> None:
        aborted = self.producers.update_marker(header, marker, offset, now_ms)
        if aborted is not None:
            try:
                segment.txn_index.append(aborted)
            except OSError as e:
                raise self._die("write the index of aborted transactions", e) from e

    def _activate(self, segment: Segment) -> None:
        """Before the first append. The producers too: read later, they would find that append in the log already."""
        self._touched = True
        self.producers  # noqa: B018
        try:
            segment.activate()
        except OSError as e:
            raise self._die("read an index", e) from e

    def _undo(self, segment: Segment, position: int, cause: OSError) -> None:
        """Take back a write that failed; raises, always."""
        try:
            segment.truncate_bytes(position)
        except OSError:
            raise self._die("append", cause) from cause
        raise StorageError(self.directory, "append", cause, undone=True) from cause

    def _too_large(self, size: int) -> KafkaError:
        if size > self._message_bytes_max:
            return KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {size} bytes, {self.tp} takes {self._message_bytes_max} (max.message.bytes)",
            )
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes, a segment of {self.tp} takes {self._segment_bytes} (segment.bytes)",
        )

    def _check_timestamps(
        self, header: BatchHeader, timestamps: Timestamps | None, now_ms: int
    ) -> None:
        if header.attributes & LOG_APPEND_TIME_BIT:
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set log append time")
        latest = header.max_timestamp if timestamps is None else timestamps.latest
        earliest = latest if timestamps is None else timestamps.earliest
        for timestamp in (earliest, latest):
            if timestamp != -1 and not (
                now_ms - self._before_max_ms <= timestamp <= now_ms + self._after_max_ms
            ):
                raise KafkaError(
                    ErrorCode.INVALID_TIMESTAMP,
                    f"timestamp {timestamp} is out of the range that {self.tp} takes at {now_ms}",
                )

    # --- segments ---

    def roll_due(self, now_ms: int) -> bool:
        """Whether the active segment is to be ended for its age, with nothing to append."""
        segment = self.segments[-1]
        if segment.size and not segment.active:
            self._activate(segment)
        return self._must_roll(segment, 0, self.log_end_offset, now_ms, now_ms)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment; nothing happens while the active one is empty. Raises StorageError."""
        if self.dead is not None:
            raise self.dead
        self._roll(now_ms)

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
        try:
            kept = self.segments
            if old.size:
                if not old.active:
                    old.activate()
                old.deactivate()
            else:
                self._drop([old])
                kept = kept[:-1]
            self.log_end_offset = base_offset
            self._write_snapshot()
            segment = Segment(self.disk, self.directory, base_offset, {}, now_ms)
            segment.activate()
        except OSError as e:
            raise self._die("roll", e) from e
        self.segments = [*kept, segment]
        self._names_changed = self._touched = True
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
            self._deleted += segment.rename(self.directory, DELETED)
            segment.close()
        self._names_changed = True

    def remove_deleted(self) -> int:
        """Remove the files of segments that were dropped `file.delete.delay.ms` ago or earlier: who dropped them calls
        this then. How many those were. Raises StorageError."""
        due, self._deleted = self._deleted, []
        try:
            for path in due:
                self.disk.remove(path)
        except OSError as e:
            raise self._die("remove a segment", e) from e
        return len(due)

    @property
    def deleted_files(self) -> int:
        """How many files wait for `remove_deleted`."""
        return len(self._deleted)

    def delete_before(self, offset: int) -> int:
        """Move the start of the log up to `offset` and drop the segments that lie wholly below; how many. The caller
        checks the high watermark. Raises KafkaError(OFFSET_OUT_OF_RANGE) beyond the end, StorageError."""
        if self.dead is not None:
            raise self.dead
        if offset > self.log_end_offset:
            raise self._out_of_range(offset)
        if offset <= self.log_start_offset:
            return 0
        self.log_start_offset = offset
        segments = self.segments
        count = sum(following.base_offset <= offset for following in segments[1:])
        self.segments = segments[count:]
        self._touched = True
        self.epochs.truncate_start(offset)
        self.producers.forget_before(offset)
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
            return False
        if offset < self.segments[0].base_offset:
            self.restart_at(offset)
            return True
        with self._flush_lock:
            try:
                keep = lookup.segment_index(self.segments, offset) + 1
                gone, self.segments = self.segments[keep:], self.segments[:keep]
                self._drop(gone)
                segment = self.segments[-1]
                if not segment.active:
                    segment.activate()
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
            try:
                self._drop(self.segments)
                now = self._now_ms if now_ms is None else now_ms
                self.segments = [Segment(self.disk, self.directory, offset, {}, now)]
                self.segments[0].activate()
                self._remove_snapshots(self.snapshots.copy())
                self._ends_at(offset)
            except OSError as e:
                raise self._die("restart", e) from e
        self.log_start_offset = offset
        self._producers = Producers(offset)
        self._epochs = LeaderEpochs()
        self._epochs.dirty = True
        self._latest_epoch = -1

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
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
        self._deleted = [f"{directory}/{path.rpartition('/')[2]}" for path in self._deleted]
        self.directory = directory

    # --- durability ---

    def flush(self, up_to: int | None = None, *, force: bool = False) -> None:
        """Make the log durable up to `up_to` (its end, if None) and move the recovery point there.

        May run in a thread while the loop appends; several at once wait for each other, and those that come late find
        their work done. With `force` also when the recovery point is there already. Raises StorageError.
        """
        with self._flush_lock:
            if self.dead is not None:
                raise self.dead
            end = self.log_end_offset
            target = end if up_to is None else min(up_to, end)
            if target <= self.recovery_point and not force:
                return
            segments = self.segments
            try:
                for i, segment in enumerate(segments):
                    last = i + 1 == len(segments)
                    if last or (
                        segments[i + 1].base_offset > self.recovery_point
                        and segment.base_offset < target
                    ):
                        self._sync_segment(segment)
                self._sync_state()
            except OSError as e:
                raise self._die("sync", e) from e
            self.recovery_point = max(self.recovery_point, min(target, self.log_end_offset))

    def _sync_segment(self, segment: Segment) -> None:
        if not segment.size and not segment.active:
            return
        try:
            segment.sync()
        except FileNotFoundError:
            if segment in self.segments:
                raise

    def _sync_state(self) -> None:
        """Epochs, snapshots and names. In a thread, perhaps."""
        epochs = self._epochs
        if epochs is not None and epochs.dirty:
            epochs.dirty = False
            self.disk.write(f"{self.directory}/{recovery.EPOCHS_FILE}", epochs.format())
        due, self._unsynced_snapshots = self._unsynced_snapshots, []
        for offset in due:
            if offset in self.snapshots:
                try:
                    self.disk.open(self._snapshot_path(offset)).sync()
                except FileNotFoundError:
                    if offset in self.snapshots:
                        raise
        if self._names_changed:
            self._names_changed = False
            self.disk.sync_dir(self.directory)

    def _write_snapshot(self) -> None:
        """The state of producers at the end of the log, unsynced; and out with snapshots nobody needs. Raises OSError."""
        offset = self.log_end_offset
        self.disk.write(self._snapshot_path(offset), self.producers.snapshot(), sync=False)
        bases = {segment.base_offset for segment in self.segments}
        if offset not in self.snapshots:
            self.snapshots.append(offset)
        self._unsynced_snapshots.append(offset)
        self._names_changed = True
        self._remove_snapshots(
            [other for other in self.snapshots if other != offset and other not in bases]
        )

    def _remove_snapshots(self, offsets: list[int]) -> None:
        for offset in offsets:
            self.snapshots.remove(offset)
            self.disk.remove(self._snapshot_path(offset))

    def _snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT)}"

    def _die(self, action: str, cause: OSError) -> StorageError:
        error = StorageError(self.directory, action, cause)
        self.dead = self.dead or error
        return error

    # --- reading ---

    def read(
        self, offset: int, bytes_max: int, offset_end: int, *, minimum_one: bool = True
    ) -> FetchSlice:
        """Batches from the one that holds `offset`, up to but not including what begins at `offset_end` (high
        watermark, last stable offset or end of the log).

        At most `bytes_max` bytes, so that the last batch may be cut off; but the first one whole with `minimum_one`
        (KIP-74), and nothing without it if the first does not fit. Empty where `offset` is not below `offset_end`.
        Raises KafkaError(OFFSET_OUT_OF_RANGE) outside of the log, StorageError, CorruptBatch.
        """
        segments = self.segments
        active_size = segments[-1].size
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            raise self._out_of_range(offset)
        if offset >= offset_end or offset == end:
            return FetchSlice(EMPTY, offset)
        try:
            return lookup.read(
                segments, offset, bytes_max, offset_end, minimum_one, end, active_size
            )
        except OSError as e:
            raise StorageError(self.directory, "read", e) from e

    def is_hot(self, offset: int) -> bool:
        """Whether `read` finds its place for `offset` without I/O; else it may wait for the disk. (The slice's own
        `resident` tells the same of the bytes.)"""
        return offset >= self.log_end_offset or self.segments[-1].is_recent(offset)

    def offset_for_time(self, timestamp: int) -> FoundTimestamp | None:
        """The first record that is not earlier than `timestamp`; None if all are. Raises StorageError."""
        try:
            return lookup.offset_for_time(self.segments, timestamp, self.log_start_offset)
        except OSError as e:
            raise StorageError(self.directory, "look up a time", e) from e

    def max_timestamp(self) -> FoundTimestamp | None:
        """The first record with the latest timestamp (KIP-734); None if none has one. Raises StorageError."""
        try:
            return lookup.max_timestamp(self.segments)
        except OSError as e:
            raise StorageError(self.directory, "look up the latest time", e) from e

    def aborted_transactions(self, offset: int, fetched: FetchSlice) -> list[AbortedTxn]:
        """The aborted transactions that a reader of committed records must leave out of `fetched`, which it read from
        `offset`. Raises StorageError."""
        try:
            return lookup.aborted_transactions(self.segments, offset, fetched, self.log_end_offset)
        except OSError as e:
            raise StorageError(self.directory, "read aborted transactions", e) from e

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction is decided, at most the high watermark. Raises StorageError at first use."""
        first = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if first is None or first > high_watermark else first

    @property
    def size(self) -> int:
        """Bytes of records, over all segments."""
        return sum(segment.size for segment in self.segments)

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.tp} holds {self.log_start_offset} to {self.log_end_offset}, not {offset}",
        )

    # --- producers and epochs ---

    @property
    def producers(self) -> Producers:
        """The state of this log's producers, read at first use. Raises StorageError."""
        if self._producers is None:
            try:
                self._producers, _ = self._load_producers()
            except OSError as e:
                raise self._die("read the state of producers", e) from e
        return self._producers

    def _load_producers(self) -> tuple[Producers, list[AbortedTxn]]:
        return recovery.load_producers(
            self.disk,
            self.directory,
            self.snapshots,
            self.segments,
            self.log_start_offset,
            self.log_end_offset,
            self._now_ms,
        )

    def expire_producers(self, now_ms: int) -> int:
        """Forget the producers that were idle for `producer.id.expiration.ms`; how many."""
        return self.producers.expire(now_ms, self._config.producer_id_expiration_ms)

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs of this log, read at first use. Raises StorageError."""
        if self._epochs is None:
            try:
                self._epochs = recovery.load_epochs(
                    self.disk,
                    self.directory,
                    self._has_epochs_file,
                    self.segments,
                    self.log_end_offset,
                )
            except OSError as e:
                raise self._die("read the leader epochs", e) from e
        return self._epochs

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that is known, or -1."""
        return self.epochs.latest

    def assign_epoch_start(self, epoch: int) -> None:
        """Note that this broker leads from here on, under `epoch`."""
        self._note_epoch(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where `epoch`, or the largest one below it, ends in this log (KIP-101, KIP-279)."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        self.epochs.assign(epoch, start_offset)
        self._latest_epoch = epoch


def _invalid(header: BatchHeader, given: int) -> KafkaError:
    if header.size != given:
        return CorruptBatch(f"a batch of {header.size} bytes in {given}")
    if header.attributes & CONTROL_BIT:
        why = "clients are not allowed to write control records"
    elif header.base_offset:
        why = f"a producer's base offset is 0, not {header.base_offset}"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        why = f"producer id {header.producer_id} with sequence {header.base_sequence}"
    else:
        why = f"{header.count} records, but the last has offset delta {header.last_offset_delta}"
    return KafkaError(ErrorCode.INVALID_RECORD, why)
