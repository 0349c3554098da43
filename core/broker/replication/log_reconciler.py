"""Makes a follower's log a prefix of its leader's, by truncating or restarting it (see
truncation.py).

Truncating or restarting a log on disk is done in a thread, with the partition marked as busy. If
several logs are due, they are done together, and the checkpoint of recovery points or of log
starts, if one of these has fallen, is written once, before any of the partitions is released.

The records below a follower's high watermark were committed. A log that would have to be truncated
below it is left alone, because the leader lacks acknowledged records. The follower stops, and
repeatedly reports both logs to the controller (core/meta/stopped_followers.py), until the
controller allows it to continue or elects it as leader, or an operator has decided. If the follower
continues, it first copies the records that it truncates (core/log/damaged.py). Such a log is
truncated without asking if this was decided earlier: the topic allows unclean leaders, or an
election since the log's last batch gave up acknowledged records.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Protocol

import trio

from pk.core.broker.offload import offload
from pk.core.broker.peers import Channel
from pk.core.broker.replication.partition import Partition, Stop
from pk.core.broker.replication.partition_fetch_state import PartitionFetchState
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.replication.truncation import Truncation, truncation_for
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.log.epochs import EpochEnd, LeaderEpochs
from pk.core.log.failures import StorageError
from pk.core.log.log_dir import LogDir
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.values import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_OFFSET,
    TopicPartition,
)
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.core.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

logger = logging.getLogger("pk.replication")

CHECKPOINT_RETRY_S_MIN: Final = 0.1
CHECKPOINT_RETRY_S_MAX: Final = 2.0
CHECKPOINT_TIMEOUT_S: Final = 30.0
"""How long to retry writing a checkpoint, in seconds, before the directory is taken offline."""

Divergence = tuple[PartitionFetchState, int, int]
"""(partition, epoch, end offset): the leader's response, which shows the offset at which the logs
diverge."""


class Fetcher(Protocol):
    """The fetcher whose logs are reconciled."""

    leader: int
    """The node id of the leader."""

    def is_current(self, fetch_state: PartitionFetchState) -> bool:
        """Return whether the log is still fetched from that leader."""
        ...

    def fail(self, fetch_state: PartitionFetchState, reason: str) -> None:
        """Try the partition again later; `reason` is logged."""
        ...

    def stop(self, fetch_state: PartitionFetchState, stop: Stop) -> None:
        """Report to the controller that the partition stopped, and try it again later."""
        ...


class LogReconciler:
    """Makes logs prefixes of one leader's logs."""

    def __init__(self, state: BrokerState, replicas: Replicas, fetcher: Fetcher) -> None:
        self._state = state
        self._replicas = replicas
        self._fetcher = fetcher

    async def truncate(self, channel: Channel, divergences: list[Divergence]) -> None:
        """Truncate logs according to the leader's responses; the next response shows whether they
        then agree."""
        due: list[tuple[PartitionFetchState, int]] = []
        for fetch_state, epoch, end_offset in divergences:
            if self._fetcher.is_current(fetch_state):
                log = fetch_state.partition.log
                truncation = truncation_for(
                    log.state.epochs, log.state.log_end_offset, epoch, end_offset
                )
                fetch_state.checked = truncation is None or truncation.logs_agree
                at = (
                    fetch_state.partition.high_watermark
                    if truncation is None
                    else truncation.offset
                )
                due.append((fetch_state, at))
        await self._truncate(channel, due)

    async def _truncate(
        self, channel: Channel, divergences: list[tuple[PartitionFetchState, int]]
    ) -> None:
        may: list[tuple[PartitionFetchState, int]] = []
        for fetch_state, offset in divergences:
            if not self._may_truncate(fetch_state, offset):
                await self._compare_and_stop(channel, fetch_state)
            elif fetch_state.partition.stopped is None or await self._copy_truncated(
                fetch_state, offset
            ):
                may.append((fetch_state, offset))
        due = [(f.partition, offset) for f, offset in may if self._fetcher.is_current(f)]
        async with (
            self._mark_busy([partition for partition, _ in due]),
            trio.open_nursery() as nursery,
        ):
            for partition, offset in due:
                nursery.start_soon(self._truncate_one, partition, offset)

    def _may_truncate(self, fetch_state: PartitionFetchState, offset: int) -> bool:
        """Return whether a log may be truncated at `offset`."""
        partition = fetch_state.partition
        log, image, stopped = partition.log, partition.image, partition.stopped
        if offset >= min(partition.high_watermark, log.state.log_end_offset):
            return True
        given_up = image is not None and image.unclean_epoch > log.state.last_batch_epoch
        may_cut = partition.config.unclean_leader_election_enable or given_up
        if stopped is not None and not may_cut:
            return stopped.may_cut and offset >= stopped.cut_offset
        logger.error(
            "%s ends at %d, and %d records below its high watermark %d are not in the log of its "
            "leader %d: %s",
            partition.tp,
            log.state.log_end_offset,
            partition.high_watermark - offset,
            partition.high_watermark,
            self._fetcher.leader,
            "these records are truncated"
            if may_cut
            else "this replica keeps them, stops fetching, and asks the controller",
        )
        self._state.metrics.committed_truncated.value += 1
        return may_cut

    async def _compare_and_stop(self, channel: Channel, fetch_state: PartitionFetchState) -> None:
        """Compare the log, which may not be truncated now, with its leader's, and stop."""
        stop = Stop()
        try:
            stop = await self._compare_with_leader(channel, fetch_state)
        except KafkaError as e:
            logger.info("%s: could not compare the log with the leader's: %s", fetch_state.key, e)
        if self._fetcher.is_current(fetch_state):
            self._fetcher.stop(fetch_state, stop)

    async def _compare_with_leader(
        self, channel: Channel, fetch_state: PartitionFetchState
    ) -> Stop:
        """Return the offset at which the logs diverge, and the leader's log end. Raises PeerLost,
        KafkaError."""
        log = fetch_state.partition.log
        epoch, end = log.state.epochs.end_offset(
            min(log.state.epochs.latest, fetch_state.leader_epoch), log.state.log_end_offset
        )
        truncation: Truncation | None = None
        while epoch >= 0:
            found = await self._leader_epoch_end(channel, fetch_state, epoch)
            truncation = truncation_for(log.state.epochs, end, *found)
            if truncation is None or truncation.logs_agree:
                break
            epoch, end = log.state.epochs.end_offset(found.epoch, truncation.offset)
        before = await self._leader_epoch_end(channel, fetch_state, fetch_state.leader_epoch - 1)
        leader_end = await self._leader_offset(channel, fetch_state, LATEST_TIMESTAMP)
        return Stop(
            truncation.offset if truncation is not None and truncation.logs_agree else NO_OFFSET,
            leader_end,
            before.epoch if before.end_offset == leader_end else fetch_state.leader_epoch,
        )

    @asynccontextmanager
    async def _mark_busy(self, partitions: list[Partition]) -> AsyncGenerator[None]:
        """Mark the partitions as busy until the block ends, so that no other task touches their
        logs. If a log was truncated below its recovery point or its start, a checkpoint records
        that before the partitions are released, so that nothing is appended earlier, under any
        leader."""
        before = [
            (p, p.log.durability.recovery_point, p.log.state.log_start_offset, p.high_watermark)
            for p in partitions
        ]
        for partition in partitions:
            partition.busy = True
        try:
            yield
        finally:
            to_write: dict[Callable[[], None], LogDir] = {}
            fallen: dict[LogDir, dict[TopicPartition, int]] = {}
            for p, recovery_point, start, high_watermark in before:
                directory = p.log.log_dir
                if p.log.durability.recovery_point < recovery_point:
                    to_write[directory.write_recovery_points] = directory
                state = p.log.state
                if not directory.has_noted_start(state, state.log_start_offset) or (
                    state.log_start_offset < start
                ):
                    to_write[directory.write_log_start_offsets] = directory
                if p.high_watermark < high_watermark:
                    # Otherwise the next start would find that the log ends below the committed
                    # records.
                    fallen.setdefault(directory, {})[p.tp] = p.high_watermark
            for directory, marks in fallen.items():
                to_write[partial(directory.write_high_watermarks, marks)] = directory
            for write, directory in to_write.items():
                await self._write_checkpoint(write, directory)
            for partition in partitions:
                partition.busy = False
                partition.touch()

    async def _write_checkpoint(self, write: Callable[[], None], directory: LogDir) -> None:
        """Write a checkpoint of the directory, and retry while the disk is full. Later images wait
        for this, so after `CHECKPOINT_TIMEOUT_S` the directory is taken offline, as Apache Kafka
        does at once."""
        clock = self._replicas.clock
        wait_s, give_up_at = CHECKPOINT_RETRY_S_MIN, clock.time() + CHECKPOINT_TIMEOUT_S
        with trio.CancelScope(shield=True):
            while not directory.failed:
                try:
                    await offload(write, directory=directory.path)
                    return
                except StorageError as e:
                    if not e.is_transient or clock.time() >= give_up_at:
                        self._replicas.failures.fail_directory(directory, e)
                        return
                    logger.warning("%s; truncated logs wait until this succeeds", e)
                await trio.sleep(wait_s)
                wait_s = min(2 * wait_s, CHECKPOINT_RETRY_S_MAX)

    async def _truncate_one(self, partition: Partition, offset: int) -> None:
        partition.stopped = None
        if offset >= partition.log.state.log_end_offset:
            try:
                partition.log.segments.truncate_to(offset)  # removes only epochs without records
            except StorageError as e:
                self._replicas.failures.fail_partition(partition, e)
            return
        logger.info(
            "%s: truncating from offset %d to %d to match its leader, broker %d (high "
            "watermark %d)",
            partition.tp,
            partition.log.state.log_end_offset,
            offset,
            self._fetcher.leader,
            partition.high_watermark,
        )
        await self._replicas.tasks.off_loop(partition, partition.log.segments.truncate_to, offset)

    async def _copy_truncated(self, fetch_state: PartitionFetchState, offset: int) -> bool:
        """Copy the records that will be truncated. Returns whether that succeeded."""
        partition, log = fetch_state.partition, fetch_state.partition.log
        if offset >= partition.high_watermark:
            return True
        try:
            await offload(log.keep_from, offset, directory=log.log_dir.path)
        except StorageError as e:
            if not e.is_transient:
                self._replicas.failures.fail_partition(partition, e)
            self._fetcher.fail(
                fetch_state,
                f"the log is not truncated, because its records could not be copied: {e}",
            )
            return False
        return True

    async def restart(self, fetch_state: PartitionFetchState, offset: int) -> None:
        """Restart the log, empty, at `offset`."""
        partition = fetch_state.partition
        logger.info(
            "%s: restarting the log, empty, at offset %d: its leader, broker %d, no longer has the "
            "records after %d",
            partition.tp, offset, self._fetcher.leader, partition.log.state.log_end_offset,
        )  # fmt: skip
        now_ms = self._replicas.clock.now_ms()
        async with self._mark_busy([partition]):
            await self._replicas.tasks.off_loop(
                partition, partition.log.segments.restart_at, offset, now_ms
            )

    async def handle_out_of_range(self, channel: Channel, fetch_state: PartitionFetchState) -> None:
        """Truncate or restart a log if the leader does not have the requested offset, because its
        log ends before the follower's, or begins after the follower's end."""
        if not self._fetcher.is_current(fetch_state):
            return
        try:
            end = await self._leader_offset(channel, fetch_state, LATEST_TIMESTAMP)
            start = await self._leader_offset(channel, fetch_state, EARLIEST_TIMESTAMP)
        except KafkaError as e:
            self._fetcher.fail(
                fetch_state, f"could not get the leader's first and last offsets: {e}"
            )
            return
        if not self._fetcher.is_current(fetch_state):
            return
        log = fetch_state.partition.log
        log_end_offset = log.state.log_end_offset
        if log.state.epochs.latest > fetch_state.leader_epoch:
            # No checksum covers a batch's leader epoch, and there has been no epoch this high.
            _, end = log.state.epochs.end_offset(fetch_state.leader_epoch, log_end_offset)
        if NO_OFFSET < end < log_end_offset:
            await self._truncate(channel, [(fetch_state, end)])
        elif start > log_end_offset:
            await self.restart(fetch_state, start)
        else:
            self._fetcher.fail(
                fetch_state, "the leader reported the offset as out of range, but now has it"
            )

    async def restart_after_remote(
        self, channel: Channel, fetch_state: PartitionFetchState
    ) -> None:
        """Restart the log after the remote segment that reaches the leader's local log start,
        because the leader has the requested offset only in remote storage. Leader epochs and
        producers come from that segment (KIP-405)."""
        if not self._fetcher.is_current(fetch_state):
            return
        partition = fetch_state.partition
        remote = partition.remote
        if remote is None:
            self._fetcher.fail(fetch_state, "this broker does not know its remote segments yet")
            return
        try:
            local_start = await self._leader_offset(channel, fetch_state, EARLIEST_LOCAL_TIMESTAMP)
            start = await self._leader_offset(channel, fetch_state, EARLIEST_TIMESTAMP)
            epoch = await self._leader_epoch_of(channel, fetch_state, local_start - 1)
            segment = remote.segments.find(epoch, local_start - 1)
            if segment is None:
                raise KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"this broker knows no remote segment with offset {local_start - 1}",
                )
            tail = await remote.reads.run(remote.reads.reader.tail, segment)
            offset, now_ms = segment.end_offset + 1, self._replicas.clock.now_ms()
            producers = Producers.from_snapshot(tail.snapshot, offset, now_ms)
        except (KafkaError, CorruptSnapshot) as e:
            self._fetcher.fail(fetch_state, f"could not find the offset in remote storage: {e}")
            return
        restored = partition.image.restored if partition.image is not None else None
        if restored is not None and (
            segment.custom_metadata is not None or segment.end_offset <= restored.end_offset
        ):
            # A lost cluster wrote the segment (storage.py, `home_of`), perhaps one with the same
            # cluster id; this cluster may have assigned the same producer ids.
            producers.forget_below(restored.producer_id_next)
        if not self._fetcher.is_current(fetch_state) or start > offset:
            return
        log = partition.log
        logger.info(
            "%s: restarting the log at offset %d: the records before it are in remote storage",
            partition.tp,
            offset,
        )
        epochs = LeaderEpochs(list(tail.epochs))
        epochs.truncate_start(start)
        async with self._mark_busy([partition]):
            restart = log.segments.restart_after_remote
            args = (offset, start, epochs, producers, now_ms)
            await self._replicas.tasks.off_loop(partition, restart, *args)
            partition.high_watermark = max(partition.high_watermark, log.state.log_end_offset)
            # Otherwise the log would begin at its first local segment after a crash.
            await self._write_checkpoint(log.log_dir.write_log_start_offsets, log.log_dir)

    async def _leader_epoch_of(
        self, channel: Channel, fetch_state: PartitionFetchState, offset: int
    ) -> int:
        """Return the leader epoch of `offset` in the leader's log. Raises PeerLost, KafkaError."""
        epoch, found = fetch_state.leader_epoch, None
        while epoch >= 0:
            end = await self._leader_epoch_end(channel, fetch_state, epoch)
            if end.end_offset <= offset:
                break
            # This is the largest epoch not above the requested one, and it ends after the offset.
            found, epoch = end.epoch, end.epoch - 1
        if found is None:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"no epoch of offset {offset}")
        return found

    async def _leader_offset(
        self, channel: Channel, fetch_state: PartitionFetchState, when: int
    ) -> int:
        """Return the leader's offset for the special timestamp `when`. Raises PeerLost,
        KafkaError."""
        topic, number = fetch_state.partition.tp
        requested_partition = ListOffsetsPartition(
            partition_index=number, current_leader_epoch=fetch_state.leader_epoch, timestamp=when
        )
        answer = await channel.request(
            ListOffsetsRequest(
                replica_id=self._state.node_id,
                topics=[ListOffsetsTopic(name=topic, partitions=[requested_partition])],
            ),
            timeout_ms=self._state.config.replica_socket_timeout_ms,
        )
        for data in (one for topic in answer.topics for one in topic.partitions):
            if data.error_code:
                raise KafkaError(data.error_code)
            return data.offset
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the leader's response does not include it"
        )

    async def _leader_epoch_end(
        self, channel: Channel, fetch_state: PartitionFetchState, epoch: int
    ) -> EpochEnd:
        """Return the end, in the leader's log, of its largest epoch not above `epoch`. Raises
        PeerLost, KafkaError."""
        name, number = fetch_state.partition.tp
        requested_partition = OffsetForLeaderPartition(
            partition=number, current_leader_epoch=fetch_state.leader_epoch, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._state.node_id,
            topics=[OffsetForLeaderTopic(topic=name, partitions=[requested_partition])],
        )
        timeout_ms = self._state.config.replica_socket_timeout_ms
        answer = await channel.request(request, timeout_ms=timeout_ms)
        for found in (one for topic in answer.topics for one in topic.partitions):
            if found.error_code:
                raise KafkaError(found.error_code)
            return EpochEnd(found.leader_epoch, found.end_offset)
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the leader's response does not include it"
        )

    async def ask_for_epoch_ends(
        self, channel: Channel, logs: Iterable[PartitionFetchState]
    ) -> None:
        """Ask a leader whose Fetch does not report diverging epochs for the ends of the last epochs
        of `logs`, and truncate, until every log agrees with the leader's. Raises PeerLost,
        KafkaError."""
        logs = list(logs)
        while due := [f for f in logs if self._fetcher.is_current(f) and self._must_compare(f)]:
            topics: dict[str, OffsetForLeaderTopic] = {}
            for fetch_state in due:
                name, number = fetch_state.partition.tp
                topics.setdefault(name, OffsetForLeaderTopic(topic=name)).partitions.append(
                    OffsetForLeaderPartition(
                        partition=number,
                        current_leader_epoch=fetch_state.leader_epoch,
                        leader_epoch=fetch_state.partition.log.state.epochs.latest,
                    )
                )
            request = OffsetForLeaderEpochRequest(
                replica_id=self._state.node_id, topics=list(topics.values())
            )
            timeout_ms = self._state.config.replica_socket_timeout_ms
            answer = await channel.request(request, timeout_ms=timeout_ms)
            ends = {
                (topic.topic, end.partition): end
                for topic in answer.topics
                for end in topic.partitions
            }
            divergences: list[Divergence] = []
            for fetch_state in due:
                end = ends.get(fetch_state.partition.tp)
                if end is None or end.error_code:
                    self._fetcher.fail(
                        fetch_state, error_name(end.error_code if end is not None else -1)
                    )
                    logs.remove(fetch_state)
                else:
                    divergences.append((fetch_state, end.leader_epoch, end.end_offset))
            await self.truncate(channel, divergences)

    @staticmethod
    def _must_compare(fetch_state: PartitionFetchState) -> bool:
        """Return whether the log must still be compared. A log without epochs, which is empty or
        older than epochs, need not be."""
        if fetch_state.partition.log.state.epochs.latest < 0:
            fetch_state.checked = True
        return not fetch_state.checked
