"""The log directories of a broker (`log.dirs`): their owner, their logs, and how they were closed.

A running broker holds a lock on each directory. A directory has files with its owner
(`meta.properties`), the recovery points of logs (`recovery-point-offset-checkpoint`), their start
offsets and high watermarks, and whether the last broker closed its logs (`.kafka_cleanshutdown`,
removed as soon as the directory is opened). At start only the names of logs are read; a log is
opened once the cluster's image has its partition.

    <topic>-<partition>                     a log
    <topic>-<partition>.<hex>-delete        a deleted log, removed after `file.delete.delay.ms`
    <topic>-<partition>.<hex>-stray         a log whose topic the cluster does not have
    <topic>-<partition>.<hex>-future        a log that is being moved here from another directory

If one of several directories fails, at start or later (`LogDir.failed`), the others continue
without its logs.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from pk.core.log import checkpoints, closed_logs, txnindex_sizes
from pk.core.log.checked_bytes import checked_batches
from pk.core.log.checkpoints import CLEAN_SHUTDOWN, PARTITION_METADATA, UNKNOWN_BROKER_EPOCH
from pk.core.log.closed_logs import ClosedLog
from pk.core.log.config import LogConfig
from pk.core.log.damaged import Damage
from pk.core.log.failures import (
    LogDirBroken,
    LogDirError,
    StorageError,
    storage_errors,
)
from pk.core.log.files import Disk
from pk.core.log.log import Log
from pk.core.log.log_dir import LOG_NAME, LogDir
from pk.core.log.log_loader import Known, open_log
from pk.core.log.recovery import Contents, Progress
from pk.core.log.segment import LOG, file_name
from pk.core.log.state import LogIdentity
from pk.core.log.txnindex_sizes import format_note as format_sizes
from pk.core.log.txnindex_sizes import mark_lost, sizes_of
from pk.core.record.batch import CorruptBatch
from pk.core.values import TopicPartition, Uuid

logger = logging.getLogger("pk.log")

NAME_MAX: Final = 255
PREFERRED_DIRS_MAX: Final = 10_000
"""The maximum number of preferred directories. Beyond this, the oldest are forgotten."""
SYNC_ALL_FROM: Final = 500
"""At least this many logs are synced together. A log takes about five syncs of 0.1 to 2 ms each,
while a sync of the whole file system also waits for the writes of other programs."""


class _Location(NamedTuple):
    """The location of a log."""

    directory: LogDir
    identity: LogIdentity
    closed: ClosedLog | Contents | None = None
    """The state of the log when it was closed; only its contents if its files have changed
    since."""
    created: bool = False
    """Whether the log was just created."""
    foreign: bool = False
    """Whether the directory had a log of another topic, which was renamed."""


class LogDirs:
    """All log directories of one broker. Its methods block; any thread may call them."""

    def __init__(self, directories: list[LogDir], new_id: Callable[[], Uuid]) -> None:
        """Called only by `open`."""
        self.directories = directories
        """In the order of `log.dirs`, including failed ones."""
        self._new_id = new_id
        self._logs: dict[TopicPartition, Log] = {}
        self._preferred_dirs: dict[TopicPartition, LogDir] = {}
        self._mutex = threading.Lock()

    @classmethod
    def open(
        cls,
        disk: Disk,
        paths: Sequence[str],
        *,
        cluster_id: str,
        node_id: int,
        holder: str,
        new_id: Callable[[], Uuid],
    ) -> "LogDirs":
        """Lock and read every directory; missing ones are created.

        `holder` is written to the lock files, to identify this process (`disk.this_process()`).
        `new_id` generates ids. `cluster_id` is "" if the controller will provide it; then call
        `identify` later. A directory whose disk fails is marked as `failed`; it is an error if all
        fail. Raises LogDirError.
        """
        directories = [LogDir(disk, path.rstrip("/") or "/") for path in paths]
        broken: OSError | None = None
        try:
            for directory in directories:
                try:
                    directory.hold(holder)
                    if cluster_id:
                        directory.identify(cluster_id, node_id, new_id)
                    directory.load()
                except OSError as e:
                    logger.error("log directory %s is offline: %s", directory.path, e)
                    directory.failed, broken = True, e
            if broken is not None and all(directory.failed for directory in directories):
                raise LogDirBroken(directories[0].path, f"No log directory can be used: {broken}.")
        except LogDirError:
            for directory in directories:
                directory.release()
            raise
        self = cls(directories, new_id)
        self._resolve_moves()
        return self

    def identify(self, cluster_id: str, node_id: int) -> None:
        """Set the owner of directories that were opened without a cluster id. Raises
        LogDirError."""
        for directory in self.usable:
            try:
                directory.identify(cluster_id, node_id, self._new_id)
            except OSError as e:
                logger.error("log directory %s is offline: %s", directory.path, e)
                directory.failed = True
        if not self.usable:
            raise LogDirBroken(self.directories[0].path, "No log directory can be used.")

    def _resolve_moves(self) -> None:
        """Settle the moves of partitions that a crash left in two directories. The log that ends
        later is the newer one, since nothing was appended to the old one after the switch. The old
        one is renamed."""
        places: dict[TopicPartition, list[LogDir]] = {}
        for directory in self.usable:
            for tp in directory.found:
                places.setdefault(tp, []).append(directory)
        for tp, several in places.items():
            if len(several) == 1:
                continue
            *behind, _ = sorted(several, key=lambda d: _extent(d, tp))
            for directory in behind:
                self._stray(directory, tp)

    @property
    def usable(self) -> list[LogDir]:
        """The directories that have not failed."""
        return [directory for directory in self.directories if not directory.failed]

    @property
    def logs_held(self) -> int:
        """The number of logs in the working directories, open or not."""
        return sum(len(directory.found) + len(directory.logs) for directory in self.usable)

    @property
    def clean_broker_epoch(self) -> int:
        """The broker epoch of the last clean shutdown; -1 if the directories do not all have the
        same one (KIP-966)."""
        epochs = {directory.clean_broker_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else UNKNOWN_BROKER_EPOCH

    def found(self) -> dict[TopicPartition, LogDir]:
        """Return the logs found at start that are not open yet."""
        return {tp: directory for directory in self.usable for tp in directory.found}

    def find(self, tp: TopicPartition) -> Log | None:
        """Return the open log of a partition."""
        return self._logs.get(tp)

    def high_watermark(self, tp: TopicPartition) -> int | None:
        """Return the high watermark of a partition in the last checkpoint."""
        for directory in self.directories:
            if tp in directory.high_watermarks:
                return directory.high_watermarks[tp]
        return None

    def cordon(self, paths: Collection[str]) -> None:
        """Do not create logs in the directories at `paths`, and allow it in all others."""
        wanted = {path.rstrip("/") or "/" for path in paths}
        for directory in self.directories:
            directory.cordoned = directory.path in wanted

    def set_preferred_dir(self, tp: TopicPartition, directory: LogDir) -> None:
        """Choose the directory in which the log of a partition will be created. The choice is lost
        at shutdown, as in Kafka."""
        self._preferred_dirs.pop(tp, None)
        if len(self._preferred_dirs) >= PREFERRED_DIRS_MAX:
            del self._preferred_dirs[next(iter(self._preferred_dirs))]
        self._preferred_dirs[tp] = directory

    def open_log(
        self,
        tp: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        now_ms: int,
        progress: Progress | None = None,
        *,
        expected: bool = False,
    ) -> Log:
        """Open the log of a partition, or create it: in the requested directory, or in the one with
        the fewest logs. `expected` says that a log should exist: if it must be created, it is
        marked as damaged.

        A log of that name with another topic id does not belong to this partition (the topic was
        deleted and created again while this broker was down), and is renamed. Several threads may
        open logs at once. Recovery takes long, and reports to `progress`. Raises StorageError.
        """
        location = self._locate(tp, topic_id)
        log = self._read(location, config, now_ms, progress, expected=expected)
        directory = location.directory
        with self._mutex:
            directory.found.pop(tp, None)
            directory.logs[tp] = self._logs[tp] = log
        return log

    @property
    def to_recover(self) -> int:
        """The number of logs that are not open yet and were not closed cleanly: opening each reads
        its end, from the recovery point on."""
        return sum(len(directory.found) for directory in self.usable if not directory.clean)

    def _locate(self, tp: TopicPartition, topic_id: Uuid) -> _Location:
        foreign = False
        with self._mutex:
            for directory in self.usable:
                path = directory.found.get(tp)
                if path is None:
                    continue
                with storage_errors(path, "look at"):
                    closed = directory.take_closed(tp, path, topic_id)
                if closed is not None or self._is_of(directory, path, topic_id):
                    identity = LogIdentity(directory.disk, path, tp, topic_id)
                    return _Location(directory, identity, closed)
                foreign = True
            if not self.usable:
                raise StorageError(str(tp), "create", OSError("every log directory has failed"))
            usable = [d for d in self.usable if tp not in d.leaving]
            if not usable:
                error = OSError("the previous log of this partition has not been renamed yet")
                raise StorageError(str(tp), "create", error, undone=True)
            preferred = self._preferred_dirs.pop(tp, None)
            usable = [d for d in usable if not d.cordoned] or usable
            directory = min(usable, key=lambda d: len(d.logs) + len(d.found))
            if preferred is not None and not preferred.failed and tp not in preferred.leaving:
                directory = preferred
            path = f"{directory.path}/{tp}"
            directory.rewrite_outdated_checkpoints(tp)
            try:
                directory.disk.make(path)
                directory.disk.write(
                    f"{path}/{PARTITION_METADATA}",
                    checkpoints.format_partition_metadata(topic_id),
                    sync=False,
                )
            except OSError as e:
                raise StorageError(path, "create", e) from e
            identity = LogIdentity(directory.disk, path, tp, topic_id)
            return _Location(directory, identity, created=True, foreign=foreign)

    def open_future(self, log: Log, directory: LogDir, now_ms: int) -> Log:
        """Open the log that will replace `log` in another directory
        (`<topic>-<partition>.<hex>-future`). It is empty, or has what an earlier run of this broker
        copied. Checking the copied data takes long; other moves can proceed. Raises
        StorageError."""
        state, path = log.state, self._future_path(log, directory)
        identity = LogIdentity(directory.disk, path, state.tp, state.topic_id)
        known = Known(log_start_offset=state.local_log_start_offset)
        future = open_log(identity, state.config, now_ms, known)
        future.log_dir = directory
        return future

    def _future_path(self, log: Log, directory: LogDir) -> str:
        """Return the path of the future log, and create its directory if missing."""
        with self._mutex:
            path = directory.futures.get(log.state.tp)
            try:
                if path is None:
                    path = self._renamed_path(directory, log.state.tp, "future")
                    directory.disk.make(path)
                metadata = checkpoints.format_partition_metadata(log.state.topic_id)
                file = f"{path}/{PARTITION_METADATA}"
                if not directory.disk.exists(file) or directory.disk.read(file) != metadata:
                    for name in directory.disk.list(path):
                        directory.disk.remove(f"{path}/{name}")  # from another topic of that name
                    directory.disk.write(file, metadata)
            except OSError as e:
                raise StorageError(path or directory.path, "create", e) from e
            directory.futures[log.state.tp] = path
            return path

    def promote(self, future: Log, log: Log) -> None:
        """Put `future`, which has all records of `log`, in its place. Call `finish_promotion` and
        `rename_replaced` next. Until then both exist, and after a crash the next start keeps the
        one that ends later (`open`). Raises StorageError."""
        with self._mutex:
            old, new = log.log_dir, future.log_dir
            future.move_directory(f"{new.path}/{log.state.tp}")
            new.futures.pop(log.state.tp, None)
            future.durability.created = True  # so that the next flush syncs it under this name
            future.state.copy_epochs(log.state)
            future.segments.first_dirty_offset = log.segments.first_dirty_offset
            old.leaving.add(log.state.tp)
            old.logs.pop(log.state.tp, None)
            if (high_watermark := old.high_watermarks.get(log.state.tp)) is not None:
                new.high_watermarks[log.state.tp] = high_watermark
            old.forget(log.state.tp)
            new.logs[log.state.tp] = self._logs[log.state.tp] = future

    def finish_promotion(self, future: Log, log: Log) -> None:
        """Make the new name of `future`, which has replaced `log`, durable, and checkpoint its
        offsets. Only then may the old log be renamed, or a power failure could leave neither.
        Raises StorageError."""
        log.abandon()
        directory = future.log_dir
        directory.sync_names()
        try:
            directory.write_recovery_points()
            directory.write_log_start_offsets()
            directory.write_high_watermarks({})
        except StorageError as e:
            if not e.is_transient:
                raise
            logger.warning("%s; the next checkpoint will include it", e)

    def rename_replaced(self, log: Log) -> str:
        """Rename a log that `future` has replaced. Returns the new path, for `remove_deleted`.
        Raises StorageError."""
        with self._mutex:
            directory = log.log_dir
            path = self._renamed_path(directory, log.state.tp, "delete")
            log.move_directory(path)
            directory.deleted.append(path)
            directory.leaving.discard(log.state.tp)
            return path

    def remove_future(self, future: Log) -> None:
        """Remove a future log that is no longer needed. Raises StorageError."""
        directory = future.log_dir
        future.abandon()
        directory.futures.pop(future.state.tp, None)
        try:
            directory.disk.remove_tree(future.state.directory)
        except FileNotFoundError:
            pass
        except OSError as e:
            raise StorageError(future.state.directory, "remove", e) from e

    def delete_log(self, log: Log) -> str:
        """Rename the log's directory and forget the log. Returns the new path: call
        `remove_deleted` with it after `file.delete.delay.ms`. Reads in flight continue. Raises
        StorageError."""
        log.abandon()  # may wait for a sync, so not under the mutex, which the loop takes
        with self._mutex:
            directory = log.log_dir
            self._logs.pop(log.state.tp, None)
            directory.logs.pop(log.state.tp, None)
            directory.forget(log.state.tp)
            path = self._renamed_path(directory, log.state.tp, "delete")
            log.move_directory(path)
            directory.deleted.append(path)
            return path

    def remove_deleted(self, path: str) -> None:
        """Remove a directory of `LogDir.deleted` permanently. Raises StorageError."""
        for directory in self.usable:
            if path in directory.deleted:
                directory.deleted.remove(path)
                try:
                    directory.disk.remove_tree(path)
                except OSError as e:
                    raise StorageError(directory.path, f"remove {path}", e) from e

    def rename_strays(self, known: Container[TopicPartition]) -> list[str]:
        """Rename the logs found at start whose partitions are not `known`. Returns their new paths.
        Call this once the cluster's image is loaded. Raises StorageError."""
        renamed: list[str] = []
        with self._mutex:
            for directory in self.usable:
                for tp in [tp for tp in directory.found if tp not in known]:
                    renamed.append(self._stray(directory, tp))
        return renamed

    def write_recovery_points(self) -> None:
        """Checkpoint the recovery point of every log. If this fails for a directory, the others are
        written before StorageError is raised."""
        self._each(LogDir.write_recovery_points)

    def write_log_start_offsets(self) -> None:
        """Checkpoint the start offsets of logs. If this fails for a directory, the others are
        written before StorageError is raised."""
        self._each(LogDir.write_log_start_offsets)

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Checkpoint the high watermarks of logs. If this fails for a directory, the others are
        written before StorageError is raised."""
        self._each(lambda directory: directory.write_high_watermarks(high_watermarks))

    def close(
        self,
        high_watermarks: Mapping[TopicPartition, int],
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        *,
        threads: int = 1,
        sync_all_from: int = SYNC_ALL_FROM,
    ) -> None:
        """Close all logs, write the files for the next start, mark each directory as clean if all
        its logs were closed, and release the locks. `threads` logs are closed at once, since most
        of the time is spent waiting for the disk. If a directory has at least `sync_all_from` logs,
        they are synced together, with everything else on their file system."""
        for directory in self.directories:
            try:
                if not directory.failed:
                    self._close(directory, high_watermarks, broker_epoch, threads, sync_all_from)
            except StorageError as e:
                directory.failed = True
                logger.error("log directory %s was not closed cleanly: %s", directory.path, e)
            finally:
                directory.release()

    def release(self) -> None:
        """Only release the locks: after an internal error the next start recovers every log."""
        for directory in self.directories:
            directory.release()

    def _close(
        self,
        directory: LogDir,
        high_watermarks: Mapping[TopicPartition, int],
        broker_epoch: int,
        threads: int,
        sync_all_from: int,
    ) -> None:
        logs = [log for log in self._logs.values() if log.log_dir is directory]
        if len(logs) >= sync_all_from:
            # Only in this thread: several threads would spend more time waiting for the interpreter
            # than for the disk.
            unsynced = [log for log in logs if _prepare_close(log)]
            if len(unsynced) >= sync_all_from and _sync_all(directory, unsynced):
                for log in unsynced:
                    log.durability.rename_epochs()
                if _sync_all(directory, unsynced):
                    for log in unsynced:
                        log.durability.synced()
                    threads = 1
        if threads > 1:
            with ThreadPoolExecutor(threads, "close-log") as pool:
                list(pool.map(Log.close, logs))
        else:
            for log in logs:
                log.close()
        directory.write_recovery_points()
        directory.write_log_start_offsets()
        directory.write_high_watermarks(high_watermarks)
        if any(log.state.dead for log in logs) or (directory.found and not directory.clean):
            return  # logs that were not opened are as unclean as before
        aborted = {log.state.tp: sizes_of(log.state.segments) for log in logs}
        aborted = {tp: sizes for tp, sizes in aborted.items() if sizes}
        try:
            if aborted:
                directory.disk.write(
                    f"{directory.path}/{txnindex_sizes.NOTE}", format_sizes(aborted)
                )
            directory.disk.write(
                f"{directory.path}/{CLEAN_SHUTDOWN}",
                checkpoints.format_clean_shutdown(broker_epoch),
            )
        except OSError as e:
            raise StorageError(directory.path, f"write {CLEAN_SHUTDOWN}", e) from e
        _note_closed(directory, logs)

    def _read(
        self,
        location: _Location,
        config: LogConfig,
        now_ms: int,
        progress: Progress | None,
        *,
        expected: bool,
    ) -> Log:
        directory, tp = location.directory, location.identity.tp
        known = _known(location, config, expected=expected)
        log = open_log(location.identity, config, now_ms, known, progress)
        if isinstance(location.closed, ClosedLog):
            log.closed_as = location.closed.document
        _report_losses(log)
        log.log_dir = directory
        mark_lost(log.state.segments, directory.aborted.get(str(tp), {}))
        # A killed process may have left names that are only in memory.
        log.durability.created = location.created or not directory.clean
        if not location.created and (noted := directory.cleaner_offsets.get(tp)) is not None:
            log.segments.first_dirty_offset = min(noted, log.durability.recovery_point)
        return log

    def _is_of(self, directory: LogDir, path: str, topic_id: Uuid) -> bool:
        """Return whether the log at `path` belongs to this topic; rename it if not. If a crash lost
        the log's topic id, the log is assumed to belong to the topic of its name."""
        metadata = f"{path}/{PARTITION_METADATA}"
        ours = checkpoints.format_partition_metadata(topic_id)
        try:
            try:
                content = directory.disk.read(metadata)
                if content == ours:
                    return True
                found = checkpoints.parse_partition_metadata(content)
            except (FileNotFoundError, ValueError):
                directory.disk.write(metadata, ours)
                return True
        except OSError as e:
            raise StorageError(path, f"read {PARTITION_METADATA}", e) from e
        if found == topic_id:
            return True
        match = LOG_NAME.fullmatch(path.rpartition("/")[2])
        assert match is not None
        self._stray(directory, TopicPartition(match[1], int(match[2])))
        return False

    def _stray(self, directory: LogDir, tp: TopicPartition) -> str:
        old, new = directory.found.pop(tp), self._renamed_path(directory, tp, "stray")
        directory.forget(tp)
        try:
            directory.disk.rename(old, new)
        except OSError as e:
            raise StorageError(old, "rename", e) from e
        logger.warning("%s belongs to no topic of the cluster; renamed to %s", old, new)
        return new

    def _renamed_path(self, directory: LogDir, tp: TopicPartition, why: str) -> str:
        """Return Kafka's name for a renamed log, which has at most 255 characters."""
        suffix = f"-{tp.partition}.{self._new_id().hex()}-{why}"
        return f"{directory.path}/{tp.topic[: NAME_MAX - len(suffix)]}{suffix}"

    def _each(self, write: Callable[[LogDir], None]) -> None:
        failure: StorageError | None = None
        for directory in self.usable:
            try:
                write(directory)
            except StorageError as e:
                failure = failure or e
        if failure is not None:
            raise failure


def _known(location: _Location, config: LogConfig, *, expected: bool) -> Known:
    """Collect the facts about a log that are known from the directory's files. `expected`: see
    `LogDirs.open_log`."""
    directory, tp, closed = location.directory, location.identity.tp, location.closed
    known = Known(directory.clean, must_verify=directory.is_noted and closed is None)
    if not location.created:
        known = known._replace(
            recovery_point=directory.recovery_points.get(tp, 0),
            log_start_offset=directory.log_start_offsets.get(tp, 0),
            high_watermark=directory.high_watermarks.get(tp, -1),
            compacted=tp in directory.cleaner_offsets,
        )
        if config.remote_storage_enable:
            known = known._replace(remote_start=directory.log_start_offsets.get(tp))
    if expected:
        known = known._replace(damage=Damage.FOREIGN if location.foreign else Damage.MISSING)
    if isinstance(closed, Contents):
        first = min(closed.found.segments, default=-1)
        return known._replace(end_offset=closed.end_offset, first_offset=first)
    return known if closed is None else known._replace(contents=closed.contents)


def _report_losses(log: Log) -> None:
    """Log the data that a log had lost when it was opened."""
    if (mark := log.mark) is not None:
        logger.error(
            "%s is damaged: %s. It ends at %d and once reached %d or more. The truncated data is "
            "kept in %s until this replica is in sync again",
            log.state.tp, mark.damage.description, log.state.log_end_offset, mark.lost_offset,
            log.state.directory,
        )  # fmt: skip
    elif log.recovered is not None and log.recovered.bytes_cut:
        logger.warning(
            "%s: recovery after an unclean stop truncated %d corrupt bytes (%d whole segments "
            "deleted); the log ends at offset %d",
            log.state.tp,
            log.recovered.bytes_cut,
            log.recovered.segments_dropped,
            log.recovered.end_offset,
        )


def _note_closed(directory: LogDir, logs: list[Log]) -> None:
    """Write the note that saves the next start most of its reads. If that fails, the next start
    reads everything."""
    disk = directory.disk
    # Logs that were not opened are unchanged.
    documents = {
        str(tp): directory.closed[str(tp)] for tp in directory.found if str(tp) in directory.closed
    }
    try:
        for log in logs:
            with contextlib.suppress(OSError, ValueError):
                document = closed_logs.document_of(
                    disk,
                    log.state.directory,
                    log.state.topic_id,
                    log.state.log_end_offset,
                    log.closed_as,
                )
                if document is not None:
                    documents[str(log.state.tp)] = document
        disk.write(f"{directory.path}/{closed_logs.NOTE}", closed_logs.format_note(documents))
    except OSError as e:
        logger.warning("%s: could not record the state of its logs: %s", directory.path, e)


def _prepare_close(log: Log) -> bool:
    """Prepare to close a log. Returns whether `close` would sync anything."""
    try:
        return log.prepare_close()
    except StorageError as e:
        logger.error("%s", e)
        return False  # its `close` will fail too, do everything, or find the log dead


def _sync_all(directory: LogDir, logs: list[Log]) -> bool:
    """Sync the file systems that have the directory and these of its logs (which may be links to
    other file systems). Returns whether that succeeded. If not, each log must be synced by itself,
    since the error may concern another program."""
    try:
        return directory.disk.sync_all([directory.path, *(log.state.directory for log in logs)])
    except OSError as e:
        logger.warning("%s: %s; each log is synced by itself", directory.path, e)
        return False


def _extent(directory: LogDir, tp: TopicPartition) -> tuple[int, int]:
    """Return the end of the log in a directory, as far as its last segment is valid, and its
    checkpointed start. (Two logs with the same records may have different segments.)"""
    path = directory.found[tp]
    sizes = {
        int(name[:20]): entry.size
        for name, entry in directory.disk.list(path).items()
        if name.endswith(LOG) and name[:20].isdigit()
    }
    end = base = max(sizes, default=-1)
    if sizes:
        file = directory.disk.open(f"{path}/{file_name(base, LOG)}")
        with contextlib.suppress(CorruptBatch):
            for _, header in checked_batches(file, 0, sizes[base]):
                end = header.next_offset
        file.close()
    return end, directory.log_start_offsets.get(tp, 0)
