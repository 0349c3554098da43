"""The state of a log: its location, segments, start and end offsets, producers and leader epochs.

The parts of a `Log` (appender, segments, durability) share one and change it according to the
rules at the top of log.py.
"""

from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.log import lookup, recovery
from pk.core.log.config import LogConfig
from pk.core.log.epochs import EpochEnd, LeaderEpochs
from pk.core.log.failures import StorageError, storage_errors
from pk.core.log.files import Disk
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.log.segment import SNAPSHOT, Segment, file_name
from pk.core.log.txnindex import AbortedTxn
from pk.core.values import TopicPartition, Uuid

INT32_MAX: Final = (1 << 31) - 1
UNREAD_EPOCH: Final = -2
"""The latest epoch of a log to which nothing was appended since it was opened."""


class LogIdentity(NamedTuple):
    """The partition of a log, and the location of the log's files."""

    disk: Disk
    directory: str
    """The path of the partition's directory."""
    tp: TopicPartition
    topic_id: Uuid


class LogState:
    """The state of one log. Methods that read may raise StorageError."""

    __slots__ = (
        "_epochs",
        "_producers",
        "abandoned",
        "changed",
        "config",
        "dead",
        "directory",
        "disk",
        "has_epochs_file",
        "local_log_start_offset",
        "log_end_offset",
        "log_start_offset",
        "names_changed",
        "noted_epoch",
        "opened_ms",
        "segments",
        "snapshots",
        "topic_id",
        "tp",
    )

    def __init__(
        self,
        identity: LogIdentity,
        config: LogConfig,
        segments: list[Segment],
        opened_ms: int,
    ) -> None:
        self.disk, self.directory, self.tp, self.topic_id = identity
        self.config = config
        self.segments = segments
        """The segments in order, never empty; the last is active. The list is replaced, never
        changed."""
        self.opened_ms = opened_ms
        self.log_start_offset = 0
        """The first offset that a reader may request."""
        self.local_log_start_offset = 0
        """The first offset on this broker's disk. It is above the log start only if older segments
        are in remote storage (KIP-405)."""
        self.log_end_offset = 0
        self.snapshots: list[int] = []
        """The offsets of the producer snapshots on the disk."""
        self.has_epochs_file = False
        self.dead: StorageError | None = None
        """The error after which the disk cannot be trusted, if there was one."""
        self.abandoned = False
        """Whether writes and syncs have stopped, because the log will be deleted or was opened
        again."""
        self.changed = False
        """Whether `close` must write, because the log was appended to, truncated or rolled since it
        was opened."""
        self.names_changed = False
        """Whether the directory must be synced, since files were created, renamed or removed."""
        self.noted_epoch = UNREAD_EPOCH
        """The leader epoch of the last append, which is in `epochs`; `UNREAD_EPOCH` before the
        first append."""
        self._epochs: LeaderEpochs | None = None
        self._producers: Producers | None = None

    def begin_at(self, offset: int) -> None:
        """Make the log begin at `offset`, both locally and as a whole."""
        self.log_start_offset = self.local_log_start_offset = offset

    def delete_to(self, offset: int) -> None:
        """Move the start of the log forward to `offset`. Only in a log with remote segments can
        `offset` be below the local records."""
        self.log_start_offset = offset
        self.local_log_start_offset = max(self.local_log_start_offset, offset)

    def end_at(self, offset: int) -> None:
        """Record that the log ends at `offset`, which may be before its start."""
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.local_log_start_offset = min(self.local_log_start_offset, offset)

    def segment_of(self, offset: int) -> Segment:
        """Return the segment that contains `offset`."""
        return self.segments[lookup.segment_index(self.segments, offset)]

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)

    @property
    def starts_inside_segment(self) -> bool:
        """Whether the checkpoint must have the log start: it differs from the base offset of the
        first segment, or a crash could restore earlier segments, or these are in remote storage."""
        if self.config.remote_storage_enable:
            return True
        return self.log_start_offset > (0 if self.names_changed else self.segments[0].base_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset before which every transaction has ended, between the log start and
        `high_watermark`."""
        first = self.producers.first_unstable_offset(high_watermark)
        if first is None or first > high_watermark:
            return high_watermark
        return max(first, self.log_start_offset)

    # --- producers and epochs, read at first use ---

    @property
    def producers(self) -> Producers:
        """The state of this log's producers."""
        if self._producers is None:
            with storage_errors(self.directory, "read the state of producers"):
                self._producers, _ = self.load_producers()
        return self._producers

    @producers.setter
    def producers(self, producers: Producers) -> None:
        self._producers = producers

    def reload_producers(self) -> None:
        """Read the producers again from the remaining log after it was truncated."""
        self._producers = None
        self.producers  # noqa: B018  now, since the next append must not find itself in the log

    def expire_producers(self, now_ms: int) -> int:
        """Drop the producers that were idle for `producer.id.expiration.ms`. Returns how many.

        Producers that are not loaded yet do not expire: their idle time begins when they are
        loaded.
        """
        if self._producers is None:
            return 0
        return self._producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def load_producers(self, quiet_from: int | None = None) -> tuple[Producers, list[AbortedTxn]]:
        """Read the producer state from snapshots and batches. Returns it and the aborted
        transactions found in these batches. Unreadable snapshots are removed. If `quiet_from` is
        given, no batch from it on has a producer, so these batches are not read. Raises OSError,
        CorruptBatch."""
        return self._load_producers(self.log_end_offset, self.snapshots, quiet_from)

    def producers_at(self, offset: int) -> Producers:
        """Read the producer state at an offset below the log end. May run in a thread. Raises
        OSError, CorruptBatch."""
        return self._load_producers(offset, [*self.snapshots])[0]

    def _load_producers(
        self, offset: int, snapshots: list[int], quiet_from: int | None = None
    ) -> tuple[Producers, list[AbortedTxn]]:
        producers, segments = self._newest_snapshot(offset, snapshots), self.segments
        start = max(producers.next_offset, segments[0].base_offset)
        end = offset if quiet_from is None else min(quiet_from, offset)
        batches = recovery.batches_between(segments, start, end)
        aborted = list(producers.replay(batches, self.opened_ms))
        producers.next_offset = offset
        return producers, aborted

    def _newest_snapshot(self, offset: int, snapshots: list[int]) -> Producers:
        """Read the newest valid snapshot of those in `snapshots` that are not above `offset`.
        Without one, returns no producers at the log start. Invalid snapshots are removed, from the
        disk and from `snapshots`. Raises OSError."""
        for taken in reversed(snapshots.copy()):
            if taken > offset:
                continue
            path = f"{self.directory}/{file_name(taken, SNAPSHOT)}"
            try:
                return Producers.from_snapshot(self.disk.read(path), taken, self.opened_ms)
            except FileNotFoundError:
                snapshots.remove(taken)
            except CorruptSnapshot:
                self.disk.remove(path)
                snapshots.remove(taken)
        return Producers(self.log_start_offset)

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs of this log."""
        if self._epochs is None:
            with storage_errors(self.directory, "read the leader epochs"):
                return self.read_epochs(self.log_end_offset)
        return self._epochs

    def read_epochs(self, end_offset: int) -> LeaderEpochs:
        """Read the epochs from their file or, if it is missing, from the batches before
        `end_offset`. Raises OSError."""
        has_file = self.has_epochs_file
        self._epochs = recovery.load_epochs(
            self.disk, self.directory, has_file, self.segments, self.log_start_offset, end_offset
        )
        return self._epochs

    @property
    def known_epochs(self) -> LeaderEpochs | None:
        """The leader epochs, or None if they were not read yet."""
        return self._epochs

    @property
    def last_batch_epoch(self) -> int:
        """The leader epoch of the last batch. If all records were deleted, it is the epoch of the
        last batch before the log start; -1 if unknown."""
        end = self.log_end_offset
        return self.epochs.epoch_of(end - 1 if end > self.log_start_offset else end)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the end in this log of `epoch`, or of the largest epoch below it (KIP-101,
        KIP-279)."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def replace_epochs(self, epochs: LeaderEpochs, latest: int, *, dirty: bool = True) -> None:
        """Replace the leader epochs. If they are `dirty`, the next flush writes them."""
        self._epochs = epochs
        epochs.dirty = dirty
        self.noted_epoch = latest

    def truncate_epochs(self, offset: int) -> None:
        """Drop the epochs that begin at or after `offset`."""
        epochs = self.epochs
        epochs.truncate_end(offset)
        self.noted_epoch = epochs.latest

    def note_epoch(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`."""
        self.epochs.assign(epoch, start_offset)
        self.noted_epoch = epoch

    def assign_epoch_start(self, epoch: int) -> None:
        """Record that this broker leads with `epoch`, from the log end on."""
        self.note_epoch(epoch, self.log_end_offset)

    # --- copied from another log of the same partition, of which this log is a copy ---

    def copy_start(self, other: "LogState") -> None:
        """Copy the log start of `other`."""
        self.log_start_offset = other.log_start_offset
        self.local_log_start_offset = other.local_log_start_offset

    def copy_epochs(self, other: "LogState") -> None:
        """Copy the leader epochs of `other`."""
        self.replace_epochs(LeaderEpochs(other.epochs.entries), UNREAD_EPOCH)

    # --- failures ---

    def check_alive(self) -> None:
        """Raise the error that killed the log, if any."""
        if self.dead is not None:
            raise without_frames(self.dead)

    def refuse(self, action: str, cause: OSError) -> StorageError:
        """Return the error for a failure that left the log unchanged. Unless the cause is a lack of
        space or of another resource that may become available again, the log is dead."""
        error = StorageError(self.directory, action, cause, undone=True)
        return error if error.is_transient else self.die(action, cause)

    def die(self, action: str, cause: OSError) -> StorageError:
        """Mark the log as dead, since its disk cannot be trusted after this failure. Returns the
        error."""
        error = StorageError(self.directory, action, cause)
        self.dead = self.dead or error
        return error

    def out_of_range(self, offset: int) -> KafkaError:
        """Return the error for an offset outside of the log."""
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.tp} holds {self.log_start_offset} to {self.log_end_offset}, not {offset}",
        )
