"""One log directory: its lock, its owner, its logs and its checkpoints (see log_dirs.py)."""

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from pk.core.cbor import CborError
from pk.core.log import checkpoints, closed_logs, txnindex_sizes
from pk.core.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    SCRUB_TIMES,
    UNKNOWN_BROKER_EPOCH,
    MetaProperties,
)
from pk.core.log.closed_logs import ClosedLog
from pk.core.log.durability import Durability
from pk.core.log.failures import (
    LogDirBroken,
    LogDirInUse,
    LogDirIsApache,
    LogDirMismatch,
    StorageError,
)
from pk.core.log.files import Disk, Lock, LockHeld
from pk.core.log.log_segments import LogSegments
from pk.core.log.recovery import Contents
from pk.core.log.state import LogState
from pk.core.log.txnindex_sizes import Sizes
from pk.core.values import METADATA_TOPIC, TopicPartition, Uuid

logger = logging.getLogger("pk.log")

T = TypeVar("T")

LOCK: Final = ".lock"
LOG_NAME: Final = re.compile(r"(.+)-(\d+)")
FUTURE_NAME: Final = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}-future")
_DELETED_NAME: Final = re.compile(r".+\.[0-9a-f]{32}-delete")


class OpenLog(Protocol):
    """The parts of an open log that its directory uses."""

    @property
    def state(self) -> LogState: ...
    @property
    def segments(self) -> LogSegments: ...
    @property
    def durability(self) -> Durability: ...
    def close(self) -> None: ...


class LogDir:
    """One log directory."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        self.failed = False
        """Whether the disk failed: the directory is offline until the broker restarts."""
        self.cordoned = False
        """Whether no log may be created in it or moved to it (`cordoned.log.dirs`, KIP-1066)."""
        self.directory_id: Uuid = bytes(16)
        self.clean = False
        """Whether the last broker closed the directory's logs cleanly."""
        self.clean_broker_epoch = UNKNOWN_BROKER_EPOCH
        self.found: dict[TopicPartition, str] = {}
        """The logs found at start that are not open yet → their directories."""
        self.deleted: list[str] = []
        """Directories that wait for `LogDirs.remove_deleted`."""
        self.logs: dict[TopicPartition, OpenLog] = {}
        self.futures: dict[TopicPartition, str] = {}
        """Logs that are being moved to this directory → their paths until the move is complete."""
        self.leaving: set[TopicPartition] = set()
        """Logs that were moved to another directory, and whose old copies have not been renamed
        yet."""
        self._checkpoints = threading.RLock()
        """Held while a checkpoint is written, from reading the offsets to writing the last byte, so
        that a thread cannot replace another thread's newer offsets with older ones."""
        self.recovery_points: dict[TopicPartition, int] = {}
        """The content of the checkpoint: the offsets from which recovery would begin after a
        crash."""
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.aborted: dict[str, Sizes] = {}
        """The sizes of the indexes of aborted transactions, as noted when the logs were closed."""
        self.is_noted = False
        """Whether the last broker wrote a note about its closed logs."""
        self.closed: dict[str, bytes] = {}
        """The documents in that note of logs that are not open yet."""
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """The offsets up to which logs are compacted."""
        self.scrub_times: dict[TopicPartition, int] = {}
        """When logs were last read to detect damage, in ms; 0 for damaged logs."""
        self._outdated: dict[str, set[TopicPartition]] = {
            name: set() for name, _ in self._offsets_noted()
        }
        """Deleted logs that are still in the checkpoint files."""
        self._lock: Lock | None = None

    def __repr__(self) -> str:
        return f"LogDir({self.path!r})"

    def take_closed(
        self, tp: TopicPartition, path: str, topic_id: Uuid
    ) -> ClosedLog | Contents | None:
        """Return the state of the closed log at `path` from the note, or only its contents if its
        files have changed since. None if the note does not have it, or it belongs to another topic
        than `topic_id`. Each document is used once. Raises OSError."""
        document = self.closed.pop(str(tp), None)
        if document is None:
            return None
        try:
            closed = closed_logs.closed_log(self.disk, path, topic_id, document)
            before = None
            if closed is None:
                before = closed_logs.closed_before(self.disk, path, topic_id, document)
        except CborError as e:
            logger.warning("%s: %s cannot be read: %s", path, closed_logs.NOTE, e)
            self.closed.clear()  # perhaps another program's: then every log would report it
            return None
        contents = before if closed is None else closed.contents
        if contents is None or contents.end_offset != self.recovery_points.get(tp, 0):
            return None
        return closed or before

    def free_bytes(self) -> tuple[int, int]:
        """Return the total and the usable bytes of the directory's file system. Raises
        StorageError."""
        try:
            return self.disk.free_bytes(self.path)
        except OSError as e:
            raise StorageError(self.path, "ask for free space", e) from e

    def hold(self, holder: str) -> None:
        """Lock the directory. Raises LogDirInUse, LogDirIsApache, OSError."""
        self.disk.make(self.path)
        try:
            self._lock = self.disk.lock(f"{self.path}/{LOCK}", holder)
        except LockHeld as e:
            who = e.holder or "another process"
            raise LogDirInUse(
                self.path, f"{self.path} is in use: {who} holds {LOCK} in it."
            ) from None
        if self.disk.exists(f"{self.path}/{METADATA_TOPIC}-0") or self.disk.exists(
            f"{self.path}/quorum-state"
        ):
            raise LogDirIsApache(
                self.path,
                f"{self.path} holds the metadata of an Apache Kafka, which pk does not read: take "
                f"its topics over with `pk log adopt {self.path}`, or name an empty directory.",
            )

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def identify(self, cluster_id: str, node_id: int, new_id: Callable[[], Uuid]) -> None:
        """Check that the directory belongs to this node of this cluster. A directory without an
        owner gets this one. Raises LogDirMismatch, LogDirBroken, OSError."""
        path = f"{self.path}/{META_PROPERTIES}"
        if not self.disk.exists(path):
            self.directory_id = new_id()
            self.disk.write(path, MetaProperties(cluster_id, node_id, self.directory_id).format())
            with contextlib.suppress(PermissionError):  # the parent may belong to another user
                self.disk.sync_dir(_parent(self.path))
            return
        meta = read_meta_properties(self.disk, self.path)
        if meta.cluster_id != cluster_id:
            raise LogDirMismatch(
                self.path,
                f"{self.path} belongs to cluster {meta.cluster_id}, this is cluster {cluster_id}.",
            )
        if meta.node_id != node_id:
            raise LogDirMismatch(
                self.path, f"{self.path} belongs to node {meta.node_id}, this is node {node_id}."
            )
        self.directory_id = meta.directory_id

    def load(self) -> None:
        """Read the names of the logs, the checkpoints and the notes, and remove the clean-shutdown
        marker. Raises OSError."""
        names = self.disk.list(self.path)
        for name, entry in names.items():
            if not entry.is_directory:
                continue
            path = f"{self.path}/{name}"
            if _DELETED_NAME.fullmatch(name):
                self.deleted.append(path)
            elif found := FUTURE_NAME.fullmatch(name):
                self.futures[TopicPartition(found[1], int(found[2]))] = path
            elif found := LOG_NAME.fullmatch(name):
                self.found[TopicPartition(found[1], int(found[2]))] = path
        self.recovery_points = self._offsets(RECOVERY_POINTS, names)
        self.log_start_offsets = self._offsets(LOG_START_OFFSETS, names)
        self.high_watermarks = self._offsets(HIGH_WATERMARKS, names)
        self.cleaner_offsets = self._offsets(CLEANER_OFFSETS, names)
        self.scrub_times = self._offsets(SCRUB_TIMES, names)
        if CLEAN_SHUTDOWN in names:
            path = f"{self.path}/{CLEAN_SHUTDOWN}"
            self.clean = True
            self.clean_broker_epoch = checkpoints.parse_clean_shutdown(self.disk.read(path))
            self.disk.remove(path)
            self.disk.sync_dir(self.path)
        if txnindex_sizes.NOTE in names:
            self.aborted = self._take_note(txnindex_sizes.NOTE, txnindex_sizes.parse_note)
        if closed_logs.NOTE in names:
            self.is_noted = self.clean
            self.closed = self._take_note(closed_logs.NOTE, closed_logs.parse_note)

    def _take_note(self, name: str, parse: Callable[[bytes], dict[str, T]]) -> dict[str, T]:
        """Read a note of a clean shutdown, and remove it, since it is only valid while logs are
        closed. Returns an empty note after an unclean shutdown."""
        path, said = f"{self.path}/{name}", dict[str, T]()
        if self.clean:
            try:
                said = parse(self.disk.read(path))
            except CborError as e:
                logger.warning("%s cannot be read and is ignored: %s", path, e)
        self.disk.remove(path)
        return said

    def _offsets(self, name: str, names: Container[str]) -> dict[TopicPartition, int]:
        """Read the offsets in a checkpoint. Returns none if it cannot be read, so that recovery
        begins at the start of each log."""
        if name not in names:
            return {}
        path = f"{self.path}/{name}"
        try:
            return checkpoints.parse_offsets(self.disk.read(path))
        except ValueError as e:
            logger.warning("%s cannot be read and is ignored: %s", path, e)
            return {}

    def sync_names(self) -> None:
        """Make the names of the directory's logs durable. Raises StorageError."""
        try:
            self.disk.sync_dir(self.path)
        except OSError as e:
            raise StorageError(self.path, "sync", e) from e

    def write_recovery_points(self) -> None:
        """Update `recovery-point-offset-checkpoint`. Raises StorageError."""
        with self._checkpoints:
            now = [(tp, log, log.durability.recovery_point) for tp, log in list(self.logs.items())]
            points = {tp: point for tp, _, point in now}
            self._write(RECOVERY_POINTS, {**self.recovery_points, **points})
            for tp, log, point in now:
                if self.logs.get(tp) is log:  # unless `forget` was called in the meantime
                    self.recovery_points[tp] = point
            self.write_cleaner_offsets()

    def write_cleaner_offsets(self) -> None:
        """Update `cleaner-offset-checkpoint` if offsets have changed. Raises StorageError."""
        with self._checkpoints:
            now = [
                (tp, log, offset)
                for tp, log in list(self.logs.items())
                if (offset := log.segments.first_dirty_offset) is not None
            ]
            changed = {**self.cleaner_offsets, **{tp: offset for tp, _, offset in now}}
            if changed != self.cleaner_offsets:
                self._write(CLEANER_OFFSETS, changed)
                for tp, log, offset in now:
                    if self.logs.get(tp) is log:
                        self.cleaner_offsets[tp] = offset

    def write_scrub_times(self) -> None:
        """Update `pk-scrub-time-checkpoint`. Raises StorageError."""
        with self._checkpoints:
            self._write(SCRUB_TIMES, self.scrub_times)

    def write_log_start_offsets(self) -> None:
        """Update `log-start-offset-checkpoint`, which has the logs that start inside a segment.
        Raises StorageError."""
        with self._checkpoints:
            starts, now = self.log_start_offsets.copy(), list(self.logs.items())
            for tp, log in now:
                if log.state.starts_inside_segment:
                    starts[tp] = log.state.log_start_offset
                else:
                    starts.pop(tp, None)
            self._write(LOG_START_OFFSETS, starts)
            for tp, log in now:
                if self.logs.get(tp) is log:
                    if tp in starts:
                        self.log_start_offsets[tp] = starts[tp]
                    else:
                        self.log_start_offsets.pop(tp, None)

    def has_noted_start(self, state: LogState, offset: int) -> bool:
        """Return whether the log would still begin at `offset`, its start, after a crash. A tiered
        log begins at the start in the checkpoint even if its first segment is far above that; it
        then has a gap if the records in between were not copied. Any other log begins with its
        first segment."""
        return (
            not state.config.remote_storage_enable
            or self.log_start_offsets.get(state.tp, offset) >= offset
        )

    def has_log_start(self, tp: TopicPartition) -> bool:
        """Return whether the checkpoint has the start of a log, even if that is somewhat out of
        date."""
        return tp in self.log_start_offsets

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Update `replication-offset-checkpoint`. Raises StorageError."""
        with self._checkpoints:
            for tp in list(self.logs):
                if tp in high_watermarks:
                    self.high_watermarks[tp] = high_watermarks[tp]
            self._write(HIGH_WATERMARKS, self.high_watermarks)

    def forget(self, tp: TopicPartition) -> None:
        """Remove a deleted log from the checkpoints and the note."""
        self.closed.pop(str(tp), None)
        for name, offsets in self._offsets_noted():
            if offsets.pop(tp, None) is not None:
                self._outdated[name].add(tp)

    def rewrite_outdated_checkpoints(self, tp: TopicPartition) -> None:
        """Update the checkpoint files that still contain a deleted log of this name, before a new
        one is created. Raises StorageError."""
        self.forget(tp)
        with self._checkpoints:
            for name, offsets in self._offsets_noted():
                if tp in self._outdated[name]:
                    self._write(name, offsets)

    def _offsets_noted(self) -> tuple[tuple[str, dict[TopicPartition, int]], ...]:
        return (
            (RECOVERY_POINTS, self.recovery_points),
            (LOG_START_OFFSETS, self.log_start_offsets),
            (HIGH_WATERMARKS, self.high_watermarks),
            (CLEANER_OFFSETS, self.cleaner_offsets),
            (SCRUB_TIMES, self.scrub_times),
        )

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        written = dict(offsets)
        try:
            self.disk.write(f"{self.path}/{name}", checkpoints.format_offsets(written))
        except OSError as e:
            error = StorageError(self.path, f"write {name}", e)
            error.undone = error.is_transient  # the previous file is still there
            raise error from e
        outdated = self._outdated[name]
        outdated.difference_update([tp for tp in outdated.copy() if tp not in written])


def _parent(path: str) -> str:
    """Return the parent directory of `path`, which may be relative."""
    above, slash, _ = path.rpartition("/")
    return above or slash or "."


def read_meta_properties(disk: Disk, path: str) -> MetaProperties:
    """Read the owner of the log directory at `path`. Raises LogDirBroken; OSError
    (FileNotFoundError if it has no owner yet)."""
    try:
        return MetaProperties.parse(disk.read(f"{path}/{META_PROPERTIES}"))
    except ValueError as e:
        raise LogDirBroken(path, f"{path}/{META_PROPERTIES} cannot be understood: {e}.") from None


def cluster_of(disk: Disk, paths: Sequence[str]) -> str | None:
    """Read the cluster id of the first directory that has one. Raises LogDirBroken, OSError."""
    for path in paths:
        if disk.exists(f"{path}/{META_PROPERTIES}"):
            return read_meta_properties(disk, path).cluster_id
    return None
