"""A partition as its broker sees it: the log, who leads it, how far its readers may read.

The high watermark is the least log end of the in-sync replicas, and, where `flush.messages` asks for it, not beyond what is
synced: Kafka syncs inside the append, so nobody reads what a power cut could take back. Here the append returns at once and
the watermark waits; one sync serves every produce that waits for it (group commit).
"""

from __future__ import annotations

from typing import Protocol

from pk.core.broker.purgatory import Purgatory
from pk.core.config import TopicConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.failures import StorageError
from pk.core.log.log import Appended, Log, Origin
from pk.core.meta.image import PartitionImage
from pk.core.record.batch import BatchHeader, Timestamps, read_header
from pk.core.values import NO_EPOCH, NO_LEADER, TopicPartition, Uuid

READ_COMMITTED = 1


class Owner(Protocol):
    """Who looks after a partition: does what must not be done on the loop, or not now."""

    def flush(self, partition: Partition) -> None:
        """Start a sync of the log; `partition.flushed` is called when it is through."""
        ...

    def dropped(self, partition: Partition) -> None:
        """Segments were dropped: remove their files after `file.delete.delay.ms`."""
        ...

    def failed(self, partition: Partition, error: StorageError) -> None:
        """The disk failed in a way that could not be taken back."""
        ...


class Partition:
    """One replica of one partition, on this broker. Also the purgatory's key for whoever waits on it."""

    __slots__ = (
        "_flushing",
        "_owner",
        "_purgatory",
        "config",
        "epoch_start_offset",
        "high_watermark",
        "image",
        "leader_epoch",
        "leads",
        "log",
        "node_id",
        "offline",
        "synced_offset",
        "topic_id",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: Uuid,
        log: Log,
        config: TopicConfig,
        *,
        node_id: int,
        purgatory: Purgatory,
        owner: Owner,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.config = config
        self.node_id = node_id
        self.image: PartitionImage | None = None
        self.leader_epoch = NO_EPOCH
        self.epoch_start_offset = log.log_end_offset
        """Where our leadership began: below it, what the last leader acknowledged (KIP-207)."""
        self.leads = False
        self.offline: KafkaError | None = None
        self.high_watermark = log.log_start_offset
        self.synced_offset = log.log_end_offset
        self._purgatory = purgatory
        self._owner = owner
        self._flushing = False

    def apply(self, image: PartitionImage) -> None:
        """Take what the controller committed: who leads, in which epoch, who is in sync.

        A new epoch of our own leadership is written to the log's epochs before its first append (KIP-101).
        """
        self.image = image
        leads = image.leader == self.node_id
        if leads and image.leader_epoch != self.leader_epoch:
            self.log.assign_epoch_start(image.leader_epoch)
            self.epoch_start_offset = self.log.log_end_offset
        self.leader_epoch = image.leader_epoch
        self.leads = leads
        if leads:
            self.advance_high_watermark()
        self._purgatory.touch(self)

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise what a client is told when it asks the wrong broker, or asks with an old or a future epoch (KIP-320)."""
        if self.offline is not None:
            raise self.offline
        if not self.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            self.check_epoch(current_leader_epoch)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH; an epoch of -1 is not checked."""
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def leader(self) -> int:
        """The node that leads the partition, or -1."""
        return self.image.leader if self.image is not None else NO_LEADER

    def follows(self, node_id: int) -> bool:
        """Whether `node_id` is a replica of the partition."""
        return self.image is not None and node_id in self.image.replicas

    def delete_before(self, offset: int) -> None:
        """Drop what lies before `offset`, which is not above the high watermark (DeleteRecords)."""
        if self.log.delete_before(offset):
            self._owner.dropped(self)
        self._purgatory.touch(self)

    def check_in_sync(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS where acks=all could not be promised (`min.insync.replicas`)."""
        image = self.image
        if image is not None and len(image.isr) < self.config.min_insync_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.tp}: {len(image.isr)} of the replicas are in sync, "
                f"min.insync.replicas is {self.config.min_insync_replicas}",
            )

    def append(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader | None = None,
        *,
        now_ms: int,
        acks_all: bool = True,
        origin: Origin = Origin.COORDINATOR,
        timestamps: Timestamps | None = None,
    ) -> Appended:
        """Append one batch as the leader. A client's has passed `intake.admit`, which found its `timestamps`.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, what the log finds wrong, KAFKA_STORAGE_ERROR.
        """
        self.check_leader()
        if acks_all:
            self.check_in_sync()
        if header is None:
            header = read_header(batch, 0)
        try:
            appended = self.log.append_as_leader(
                batch, header, self.leader_epoch, now_ms, origin=origin, timestamps=timestamps
            )
        except StorageError as e:
            if not e.undone:
                self._owner.failed(self, e)
            raise
        if not appended.duplicate:
            self.appended(appended.rolled)
        return appended

    def appended(self, rolled: bool = False) -> None:
        """The log has grown: start the sync that `flush.messages` asks for, else let readers see it.

        A segment that is full is synced too, as Kafka does; nobody waits for that.
        """
        log = self.log
        if self._flushing:
            return
        if log.log_end_offset - log.recovery_point >= self.config.flush_messages:
            self._flushing = True
            self._owner.flush(self)
            return
        self.advance_high_watermark()
        if rolled:
            self._owner.flush(self)

    def flushed(self, offset: int) -> None:
        """The log is synced below `offset`: go on syncing if more has come that asks for it, else let readers see it."""
        self.synced_offset = max(self.synced_offset, offset)
        self._purgatory.touch(self)
        if not self._flushing:
            return
        log = self.log
        unsynced = log.log_end_offset - self.synced_offset
        if unsynced >= self.config.flush_messages and self.offline is None:
            self.advance_high_watermark(self.synced_offset)
            self._owner.flush(self)
            return
        self._flushing = False
        self.advance_high_watermark()

    @property
    def flushing(self) -> bool:
        """Whether a sync is under way that produces wait for."""
        return self._flushing

    def advance_high_watermark(self, limit: int | None = None) -> None:
        """Move the high watermark to the least log end of the in-sync replicas, at most `limit`; wake who waits."""
        end = self.log.log_end_offset
        if limit is not None and limit < end:
            end = limit
        if end > self.high_watermark:
            self.high_watermark = end
            self._purgatory.touch(self)

    def end_offset(self, isolation_level: int) -> int:
        """Where a reader of this isolation level has to stop."""
        if isolation_level == READ_COMMITTED:
            return self.log.last_stable_offset(self.high_watermark)
        return self.high_watermark

    async def wait_for_high_watermark(self, offset: int, deadline: float) -> bool:
        """Wait until the high watermark has reached `offset`; False when `deadline` (trio's clock) passes first.

        Raises NOT_LEADER_OR_FOLLOWER when leadership is lost meanwhile, KAFKA_STORAGE_ERROR when the disk is.
        """
        epoch = self.leader_epoch

        def ready() -> bool:
            return (
                self.high_watermark >= offset
                or self.offline is not None
                or self.leader_epoch != epoch
                or not self.leads
            )

        if not ready():
            await self._purgatory.until(ready, (self,), deadline)
        if self.offline is not None:
            raise self.offline
        if self.high_watermark < offset and (self.leader_epoch != epoch or not self.leads):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.high_watermark >= offset

    async def wait_for_flush(self, offset: int, deadline: float) -> bool:
        """Wait until what lies below `offset` is synced, or no sync is asked for any more. Raises as the above."""

        def ready() -> bool:
            return self.synced_offset >= offset or not self._flushing

        await self._purgatory.until(ready, (self,), deadline)
        if self.offline is not None:
            raise self.offline
        return ready()

    def fail(self, error: KafkaError) -> None:
        """The disk below is gone: everyone who waits is told, and whoever comes."""
        self.offline = error
        self._flushing = False
        self._purgatory.touch(self)

    def stop(self) -> None:
        """The partition is deleted or moved away."""
        self.leads = False
        self._purgatory.touch(self)
