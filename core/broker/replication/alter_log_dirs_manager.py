"""Moves a partition's log to another log directory while it is read and written
(AlterReplicaLogDirs, KIP-113).

A *future* log in the other directory is filled from the current one, off the event loop, until
little is missing. Then, in one step of the event loop, the rest is copied and the future log gets
its name: between two batches the partition switches logs. When the new name is durable, the old log
is renamed, and removed `file.delete.delay.ms` later, since readers may still use it. A future log
left by a stop, a crash or a full disk is continued from the offset up to which the two logs agree,
since the log may have been truncated and have grown since. The mark of a damaged log, and the
records that were truncated from it, are moved as well (core/log/damaged.py). If the log was synced
(`flush.messages`), the copy is synced before it counts.

`replica.alter.log.dirs.io.max.bytes.per.second` limits the rate. If the log is truncated during the
move, because its leader's has other records, the copy is truncated too: the log may since have
grown past that offset again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
import trio.lowlevel

from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.truncation import truncation_for
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.log.failures import StorageError
from pk.core.record.batch import read_header
from pk.core.values import TopicPartition

if TYPE_CHECKING:
    from pk.core.broker.replication.replicas import Replicas
    from pk.core.broker.replication.replication_quotas import Quota
    from pk.core.log.log import Log
    from pk.core.log.log_dir import LogDir
    from pk.core.log.log_dirs import LogDirs

logger = logging.getLogger("pk.broker")

COPY_BYTES = 1 << 20
"""The number of bytes copied at a time in a thread, and the most that the event loop copies itself
at the end."""
QUOTA_WAIT_S_MIN = 0.001
QUOTA_CHECK_S = 0.5
"""The longest wait for the quota, in seconds: the quota may be raised during the wait."""
NO_REPLICA = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
FLUSH_NEVER = 1 << 62
"""From this value on, which includes its default, `flush.messages` requires no sync."""


class Move:
    """The move of one log."""

    def __init__(
        self, partition: Partition, directory: LogDir, previous: Move | None = None
    ) -> None:
        """`previous` is an earlier move that must end first, since it may still use the same
        files."""
        self.partition = partition
        self.directory = directory
        self.previous = previous
        self.future: Log | None = None
        self.truncated_at: int | None = None
        """The offset at which the log was truncated since the last copied piece; the copy may
        differ from there on."""
        self.scope = trio.CancelScope()
        self.is_ending = False
        """Whether the move has stopped copying: it has finished, has failed, or is no longer
        wanted."""
        self.ended = trio.Event()

    def cancel(self) -> None:
        """End the move, which is no longer wanted."""
        self.is_ending = True
        self.scope.cancel()


class AlterLogDirsManager:
    """All moves of a broker."""

    def __init__(
        self,
        replicas: Replicas,
        dirs: LogDirs,
        start_soon: Callable[..., None],
        quota: Quota,
        moved: Callable[[Partition], None],
    ) -> None:
        """`quota` limits the rate of copying; `moved(partition)` is called when a log is in its new
        directory."""
        self._replicas = replicas
        self._dirs = dirs
        self._start_soon = start_soon
        self._quota = quota
        self._moved = moved
        replicas.tasks.log_truncated.append(self._on_truncated)
        self._moves: dict[TopicPartition, Move] = {}

    def moves(self, directory: LogDir) -> list[Move]:
        """Return the moves into a directory, except one that has just finished."""
        return [
            move
            for move in self._moves.values()
            if move.directory is directory
            and not move.is_ending
            and move.future is not move.partition.log
        ]

    def move(self, topic: str, number: int, path: str) -> None:
        """Begin to move a partition's log to the directory at `path`. A move in progress to another
        directory ends, and a move to the log's own directory means that it stays. If the broker
        does not have the partition (yet), its log will be created in that directory, which
        REPLICA_NOT_AVAILABLE reports. Raises LOG_DIR_NOT_FOUND, INVALID_REPLICA_ASSIGNMENT for a
        directory that is cordoned, KAFKA_STORAGE_ERROR, and the errors of `Replicas.partition`."""
        directory = next((d for d in self._dirs.directories if d.path == path.rstrip("/")), None)
        if directory is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not one of log.dirs")
        if directory.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} has failed")
        if directory.cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{path} is cordoned")
        try:
            partition = self._replicas.partition(topic, number)
        except KafkaError as e:
            if e.code in NO_REPLICA:
                self._dirs.set_preferred_dir(TopicPartition(topic, number), directory)
            if e.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE) from None
            raise
        if partition.offline is not None:
            raise without_frames(partition.offline)
        current = self._moves.get(partition.tp)
        if current is not None:
            same = current.partition is partition and current.directory is directory
            if same and not current.is_ending:
                return
            current.cancel()
        if partition.log.log_dir is not directory:
            self._begin(Move(partition, directory, current))

    def resume(self) -> None:
        """Continue the moves that a stop of this broker interrupted."""
        for directory in self._dirs.usable:
            for tp in list(directory.futures):
                partition = self._replicas.find(*tp)
                if partition is not None and partition.log.log_dir is not directory:
                    self._begin(Move(partition, directory))

    def _on_truncated(self, partition: Partition, offset: int) -> None:
        """Note that the partition's log was truncated at `offset`, or restarted there."""
        move = self._moves.get(partition.tp)
        if move is not None and move.partition is partition:
            move.truncated_at = (
                offset if move.truncated_at is None else min(move.truncated_at, offset)
            )

    def _begin(self, move: Move) -> None:
        self._moves[move.partition.tp] = move
        self._start_soon(self._run, move)

    async def _run(self, move: Move) -> None:
        partition, damaged = move.partition, False
        try:
            if move.previous is not None:
                with trio.CancelScope(shield=True):
                    await move.previous.ended.wait()
                move.previous = None
            with move.scope:
                await self._copy(move)
        except StorageError as e:
            logger.error(
                "%s was not moved and stays in %s: %s", partition.tp, partition.log.log_dir.path, e
            )
            self._replicas.failures.report(e)
        except KafkaError as e:  # a batch is damaged; `pk log verify` must find it
            logger.error(
                "%s was not moved and stays in %s: %s", partition.tp, partition.log.log_dir.path, e
            )
            damaged = True
        finally:
            move.is_ending = True
            try:
                if move.future is not None and partition.log is not move.future:
                    wanted = damaged or move.scope.cancelled_caught or not self._is_here(partition)
                    with trio.CancelScope(shield=True):
                        await self._discard(move.future, remove=wanted)
            finally:
                if self._moves.get(partition.tp) is move:
                    del self._moves[partition.tp]
                move.ended.set()

    async def _discard(self, future: Log, *, remove: bool) -> None:
        """Delete a future log, or keep it for the next start."""
        try:
            await offload(self._dirs.remove_future if remove else _abandon, future)
        except StorageError as e:
            logger.error("%s could not be removed: %s", future.state.directory, e)

    async def _copy(self, move: Move) -> None:
        partition, now_ms = move.partition, self._replicas.clock.now_ms
        log = partition.log
        future = move.future = await offload(self._dirs.open_future, log, move.directory, now_ms())
        path = move.directory.path
        await offload(future.copy_damage, log, directory=path)
        await self._align(move, future)
        while self._is_here(partition):
            if move.truncated_at is not None:
                await self._truncate_copy(move, future)
                continue
            if partition.busy or self._quota.exceeded:
                await trio.sleep(min(max(self._quota.wait_s, QUOTA_WAIT_S_MIN), QUOTA_CHECK_S))
                continue
            if log.state.log_end_offset - future.state.log_end_offset and await self._catch_up(
                move, future
            ):
                continue
            if not future.has_same_damage(log):
                await offload(future.copy_damage, log, directory=path)
            await offload(future.durability.flush, directory=path)
            await trio.lowlevel.checkpoint_if_cancelled()
            if partition.busy or move.truncated_at is not None or not future.has_same_damage(log):
                continue
            missing = log.reader.read_bytes(
                max(future.state.log_end_offset, log.state.local_log_start_offset),
                COPY_BYTES,
                log.state.log_end_offset,
            )
            if len(missing) >= COPY_BYTES:
                continue
            if self._switch(partition, future, missing):
                with trio.CancelScope(shield=True):
                    await self._delete_old_log(partition, future, log)
                return

    async def _align(self, move: Move, future: Log) -> None:
        """Truncate an earlier copy to the offset up to which it agrees with the log, as a follower
        truncates its log to its leader's."""
        log, path = move.partition.log, move.directory.path
        while future.state.size:
            log_epoch_end = log.state.end_offset_for_epoch(future.state.epochs.latest)
            truncation = truncation_for(
                future.state.epochs,
                future.state.log_end_offset,
                log_epoch_end.epoch,
                log_epoch_end.end_offset,
            )
            if (
                truncation is None
            ):  # without a common epoch, nothing shows that any records are the same
                now_ms = self._replicas.clock.now_ms()
                await offload(
                    future.segments.restart_at,
                    log.state.local_log_start_offset,
                    now_ms,
                    directory=path,
                )
                return
            await offload(future.segments.truncate_to, truncation.offset, directory=path)
            if truncation.logs_agree:
                return

    async def _truncate_copy(self, move: Move, future: Log) -> None:
        """Truncate the copy at the offset at which the log was truncated."""
        offset, move.truncated_at = move.truncated_at, None
        assert offset is not None
        await offload(future.segments.truncate_to, offset, directory=move.directory.path)

    async def _catch_up(self, move: Move, future: Log) -> bool:
        """Copy up to COPY_BYTES of the missing records. Returns whether more may be missing."""
        partition = move.partition
        try:
            copied = await offload(_copy_some, partition.log, future, self._replicas.clock.now_ms())
        except KafkaError:
            if partition.busy or move.truncated_at is not None:
                return True  # the log was truncated during the copy
            raise
        self._quota.record(copied)
        await trio.lowlevel.checkpoint()
        return copied >= COPY_BYTES

    def _switch(self, partition: Partition, future: Log, missing: bytes) -> bool:
        """Copy the rest and switch logs, without a checkpoint, so that no append or read comes in
        between. Returns False if the rest was incomplete."""
        log = partition.log
        if missing:
            future.appender.append_as_follower(missing, self._replicas.clock.now_ms())
        elif future.state.log_end_offset < log.state.log_end_offset:
            # Compaction has removed all records before the empty active segment.
            future.segments.roll_to(log.state.log_end_offset, self._replicas.clock.now_ms())
        if future.state.log_end_offset != log.state.log_end_offset:
            return False
        future.state.copy_start(log.state)
        if partition.config.flush_messages < FLUSH_NEVER:
            future.durability.flush()
        future.configure(log.state.config)
        self._dirs.promote(future, log)
        partition.log = future
        self._moved(partition)
        logger.info("%s was moved to %s", partition.tp, future.log_dir.path)
        return True

    async def _delete_old_log(self, partition: Partition, future: Log, log: Log) -> None:
        """Delete the previous log of the partition, once the new one is safe."""
        await offload(self._dirs.finish_promotion, future, log, directory=future.log_dir.path)
        path = self._dirs.rename_replaced(log)
        self._replicas.deletion.remove_later(path, partition.config.file_delete_delay_ms)
        await offload(log.log_dir.sync_names, directory=log.log_dir.path)

    def _is_here(self, partition: Partition) -> bool:
        return self._replicas.find(*partition.tp) is partition and partition.offline is None


def _abandon(future: Log) -> None:
    future.abandon()


def _copy_some(log: Log, future: Log, now_ms: int) -> int:
    """Copy up to COPY_BYTES, in a thread. Returns the number of bytes copied."""
    start = log.state.local_log_start_offset
    if future.state.log_end_offset < start:
        future.segments.restart_at(start, now_ms)
    if future.state.log_end_offset > log.state.log_end_offset:
        future.segments.truncate_to(log.state.log_end_offset)
    try:
        data = log.reader.read_bytes(
            future.state.log_end_offset, COPY_BYTES, log.state.log_end_offset
        )
    except KafkaError as e:
        if e.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        return COPY_BYTES  # retention deleted the records: try again from the new log start
    if data:
        base = read_header(data).base_offset
        if base < future.state.log_end_offset == future.state.log_start_offset:
            # The log begins in the middle of this batch (DeleteRecords), and the future log is
            # empty.
            future.segments.restart_at(base, now_ms)
        future.appender.append_as_follower(data, now_ms)
    return len(data)
