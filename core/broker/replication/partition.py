"""A partition on this broker: its log, its leader, and how far consumers may read.

The leader's high watermark is the lowest log end of the *maximal* ISR: the replicas that the
controller committed as in sync, and those whose addition was proposed to it (KIP-497). Counting one
more replica can only hold the high watermark back; a replica to be removed counts until the
controller has confirmed it. The high watermark does not move while fewer than `min.insync.replicas`
are in sync (KIP-966), and never falls within a leader epoch. If `flush.messages` requires syncs, it
does not pass the end of the synced records either. Kafka syncs inside the append, so no client
reads records that a power failure could take back. Here the append returns at once and the high
watermark waits; one sync serves every produce that waits for it (group commit). A follower syncs
before its next fetch, so the records below its fetch offset are as durable as its leader's.

A follower's high watermark is its leader's, limited to its own log end. It starts from the
checkpoint. A new leader starts with its own, which may be lower than the one that the last leader
reported (`epoch_start_offset`, KIP-207).

With one replica there are no followers, no proposals and nothing to wait for: the code below costs
such a partition only the check of an empty dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import trio

from pk.core.broker.purgatory import OffsetWaiters, Purgatory
from pk.core.broker.replication.fetch_sessions import FetchedPartition, FetchSession
from pk.core.broker.replication.follower_state import NO_BROKER_EPOCH, Follower, FollowerFetch
from pk.core.broker.replication.partition_environment import PartitionEnvironment, Proposal
from pk.core.broker.replication.remote_log import RemoteLog
from pk.core.config import TopicConfig
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.log.failures import StorageError
from pk.core.log.files import Data
from pk.core.log.log import Appended, Log, Origin, Replicated
from pk.core.log.retention import has_segments_below_start
from pk.core.meta.image import PartitionImage
from pk.core.record.batch import BatchHeader, Timestamps, read_header
from pk.core.record.validation import ValidatedBatch
from pk.core.values import NO_EPOCH, NO_LEADER, NO_OFFSET

READ_COMMITTED = 1
PROPOSAL_BACKOFF_S = 0.1
"""How long the partition proposes no new ISR member after the controller refused one, in
seconds."""
READERS_MIN = 32
"""The number of consumers' sessions below which a partition does not look for ended ones."""
DROPPED_AT_ONCE = 32
"""The number of segments whose files are renamed between two checkpoints."""


class LogEnd:
    """The purgatory's key for requests that wait for the log end, not for the high watermark."""

    __slots__ = ()


class Stop(NamedTuple):
    """A follower has stopped, because its log would have to be truncated below its own high
    watermark."""

    cut_offset: int = NO_OFFSET
    """The offset at which the leader's log diverges or ends; -1 while unknown."""
    leader_end_offset: int = NO_OFFSET
    leader_last_epoch: int = NO_EPOCH
    """The leader epoch of the last batch of the leader's log."""
    may_cut: bool = False
    """Whether the controller allows the follower to continue."""
    why: str = ""
    """The controller's reason."""


class Partition:
    """This broker's replica of a partition. Also the purgatory's key for requests that wait for its
    high watermark."""

    __slots__ = (
        "_flushing",
        "_maximal",
        "_no_proposal_until",
        "_offset_waiters",
        "_owner",
        "_purgatory",
        "_readers_max",
        "busy",
        "config",
        "end_key",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "image",
        "is_restored",
        "isr",
        "leader_epoch",
        "leads",
        "log",
        "node_id",
        "offline",
        "partition_epoch",
        "proposal",
        "readers",
        "remote",
        "stopped",
        "synced_offset",
        "topic_id",
        "tp",
        "watchers",
    )

    def __init__(
        self,
        log: Log,
        config: TopicConfig,
        *,
        node_id: int,
        purgatory: Purgatory,
        owner: PartitionEnvironment[Partition],
        high_watermark: int | None = None,
    ) -> None:
        """`high_watermark` comes from the checkpoint; None if it has no entry."""
        self.tp = log.state.tp
        self.topic_id = log.state.topic_id
        self.log = log
        self.config = config
        self.node_id = node_id
        self.image: PartitionImage | None = None
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.isr: tuple[int, ...] = ()
        """The in-sync replicas, as last committed by the controller: the image may be a little
        behind."""
        self.epoch_start_offset = log.state.log_end_offset
        """The log end when this broker became the leader; the last leader acknowledged no record
        after it (KIP-207)."""
        self.leads = False
        self.is_restored = False
        """Whether this broker has restored the log from remote storage since it opened the log."""
        self.busy = False
        """Whether a thread is truncating or restarting the log: until it ends, no other task reads
        or appends."""
        self.stopped: Stop | None = None
        """Why this follower has stopped, until the controller allows it to continue, or elects
        another leader."""
        self.offline: KafkaError | None = None
        # Only committed records are copied to remote storage and dropped here. So a lower
        # checkpoint of the high watermark is outdated, and followers could not fetch the records
        # that would raise it.
        start = log.state.local_log_start_offset
        noted = start if high_watermark is None else high_watermark
        self.high_watermark = min(max(noted, start), log.state.log_end_offset)
        self.synced_offset = log.durability.recovery_point
        self.remote: RemoteLog | None = None
        """The segments in remote storage, if the partition has or may get some."""
        self.followers: dict[int, Follower] = {}
        """The other replicas by node id, while this broker leads."""
        self.proposal: Proposal | None = None
        """The change of the ISR that waits for the controller."""
        self.end_key = LogEnd()
        self.watchers: dict[FetchedPartition, FetchSession] = {}
        """The sessions of followers, notified of every change."""
        self.readers: dict[FetchedPartition, FetchSession] = {}
        """The sessions of consumers, notified once, when they may read further."""
        self._readers_max = READERS_MIN
        """The number of readers above which those that no request waits for are dropped."""
        self._maximal: frozenset[int] = frozenset()
        self._purgatory = purgatory
        self._owner = owner
        self._no_proposal_until = 0.0
        self._flushing = False
        self._offset_waiters = OffsetWaiters()
        """The tasks that wait for the high watermark."""

    # --- decisions of the controller ---

    def apply(self, image: PartitionImage) -> None:
        """Apply the leader, leader epoch and ISR that the controller committed. An `image` older
        than a response to AlterPartition changes nothing.

        A new epoch of this broker's own leadership is written to the log's epochs before its first
        append (KIP-101). A leader whose log must be restored first leads only when that is done,
        and calls this again.
        """
        if image.partition_epoch < self.partition_epoch:
            return
        self.image = image
        if image.leader == self.node_id and self.awaits_restore:
            return
        if image.leader_epoch != self.leader_epoch:
            self.stopped = None
        leads = image.leader == self.node_id
        led, old_epoch = self.leads, self.leader_epoch
        if leads and image.leader_epoch != old_epoch:
            self.log.state.assign_epoch_start(image.leader_epoch)
            self.epoch_start_offset = self.log.state.log_end_offset
        if image.partition_epoch > self.partition_epoch or image.leader_epoch != old_epoch:
            # Otherwise a response has reported this ISR before, and a later proposal may be
            # committed already.
            self._committed(image.isr)
        self.leader_epoch = image.leader_epoch
        self.leads = leads
        self.partition_epoch = image.partition_epoch
        if leads:
            if len(image.replicas) > 1 or self.followers:
                self._track_followers(
                    image, new_epoch=image.leader_epoch != old_epoch, new_leader=not led
                )
            self.appended()
            self.expand()
        elif self.followers:
            self.followers = {}
        self._wake_all()

    def _track_followers(self, image: PartitionImage, *, new_epoch: bool, new_leader: bool) -> None:
        """Track the other replicas, as their leader."""
        known = {} if new_leader else self.followers
        self.followers = {
            node: known.get(node) or Follower(node)
            for node in image.replicas
            if node != self.node_id
        }
        if new_epoch:
            now, end = self._owner.now(), self.log.state.log_end_offset
            for node, follower in self.followers.items():
                follower.reset(now, end, new_leader=new_leader, in_sync=node in image.isr)

    def _committed(self, isr: tuple[int, ...]) -> None:
        self.isr = isr
        self.proposal = None
        self._maximal = frozenset(isr)

    @property
    def awaits_restore(self) -> bool:
        """Whether the log must still be restored from remote storage. The answer comes from the log
        on disk, so a broker that dies before the end begins again. A log whose restored records
        have all expired looks the same on disk, so it is restored once more, with no records."""
        restored = self.image.restored if self.image is not None else None
        state = self.log.state
        return (
            restored is not None
            and not self.leads
            and not self.is_restored
            and state.log_start_offset == state.log_end_offset <= restored.end_offset + 1
        )

    # --- checks of requests ---

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER on the wrong broker, or the error for an old or future epoch
        (KIP-320)."""
        if self.offline is not None:
            raise without_frames(self.offline)
        if not self.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            self.check_epoch(current_leader_epoch)

    def check_readable(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise the error that stops all reads from this replica, leader or not."""
        if self.offline is not None:
            raise without_frames(self.offline)
        self.check_epoch(current_leader_epoch)
        if self.busy:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{self.tp} is being truncated")
        if not self.leads and self.awaits_restore:  # no offset counts as out of range yet
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{self.tp} is being restored")

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

    @property
    def min_in_sync(self) -> int:
        """The lower of `min.insync.replicas` and the number of replicas."""
        return min(self.config.min_insync_replicas, len(self.followers) + 1)

    @property
    def under_min_isr(self) -> bool:
        """Whether too few replicas are in sync for acks=all."""
        return len(self.isr) < self.min_in_sync

    def check_in_sync(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS if fewer than `min.insync.replicas` are in sync."""
        if self.followers and len(self.isr) < self.min_in_sync:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, self._too_few_in_sync())

    def _too_few_in_sync(self) -> str:
        return (
            f"{self.tp}: {len(self.isr)} of the replicas are in sync, but min.insync.replicas is "
            f"{self.config.min_insync_replicas}"
        )

    # --- the leader's log ---

    def delete_before(self, offset: int) -> None:
        """Delete the records before `offset`, which is at most the high watermark (DeleteRecords).
        They become unreadable at once; their files are renamed a few segments at a time, or, for a
        tiered topic, once a checkpoint has the new log start. If the log already starts there, no
        reader is woken: a thousand may wait for the partition. Raises KafkaError:
        OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR."""
        log = self.log
        started = log.state.log_start_offset
        most = DROPPED_AT_ONCE if log.log_dir.has_noted_start(log.state, offset) else 0
        try:
            dropped = log.segments.delete_before(offset, most)
        except StorageError as e:
            if not e.undone:
                self._owner.failed(self, e)
            raise
        if dropped or (not most and has_segments_below_start(log)):
            self._owner.dropped(self)
        if log.state.log_start_offset != started:
            self.touch()

    def delete_local_before(self, offset: int) -> None:
        """Drop the files of some segments below `offset`, which are also in remote storage. Raises
        KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            dropped = self.log.segments.delete_local_before(offset, DROPPED_AT_ONCE)
        except StorageError as e:
            if not e.undone:
                self._owner.failed(self, e)
            raise
        if dropped:
            self._owner.dropped(self)

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
        """Append one batch as the leader. A client's batch is a `ValidatedBatch`, which has its
        `timestamps`.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, the errors of the log,
        KAFKA_STORAGE_ERROR.
        """
        self.check_leader()
        if acks_all:
            self.check_in_sync()
        if header is None:
            header = read_header(batch, 0)
        try:
            appended = self.log.appender.append_as_leader(
                batch, header, self.leader_epoch, now_ms, origin=origin, timestamps=timestamps
            )
        except StorageError as e:
            if not e.undone:
                self._owner.failed(self, e)
            raise
        if not appended.duplicate:
            self.appended(appended.rolled)
        return appended

    def append_run(
        self,
        run: Sequence[ValidatedBatch],
        now_ms: int,
        *,
        acks_all: bool,
    ) -> list[int]:
        """Append the first batches of `run` with one write, and return their base offsets. The
        write ends before the first batch that does not fit into a run, which `append` appends or
        refuses.

        Raises KafkaError, with nothing appended: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
        KAFKA_STORAGE_ERROR.
        """
        self.check_leader()
        if acks_all:
            self.check_in_sync()
        try:
            offsets = self.log.appender.append_run(run, self.leader_epoch, now_ms)
        except StorageError as e:
            if not e.undone:
                self._owner.failed(self, e)
            raise
        if offsets:
            self.appended()
        return offsets

    def appended(self, rolled: bool = False) -> None:
        """Handle an append: start the sync that `flush.messages` requires, or else advance the high
        watermark.

        A full segment is synced too, as in Kafka; no request waits for that sync.
        """
        log = self.log.state
        if self.followers:
            self._purgatory.touch(self.end_key)
            self._notify_watchers(wake=True)
        if self._flushing:
            return
        unsynced = log.log_end_offset - self.log.durability.durable_offset
        if unsynced >= self.config.flush_messages:
            self._flushing = True
            self._owner.flush(self)
            return
        self.advance_high_watermark()
        if rolled:
            self._owner.flush(self)

    def flushed(self, offset: int) -> None:
        """Handle a sync of the records below `offset`: start the next sync if later records require
        it, and advance the high watermark."""
        self.synced_offset = max(self.synced_offset, offset)
        self._purgatory.touch(self)
        if not self._flushing:
            return
        log = self.log
        unsynced = log.state.log_end_offset - self.synced_offset
        if unsynced >= self.config.flush_messages and self.offline is None:
            self.advance_high_watermark()
            self._owner.flush(self)
            return
        self._flushing = False
        self.advance_high_watermark()

    @property
    def flushing(self) -> bool:
        """Whether produce requests must wait for a sync."""
        return self._flushing

    def advance_high_watermark(self) -> None:
        """Advance the leader's high watermark as far as possible, and wake the tasks that wait for
        it."""
        if not self.leads:
            return
        end = self.synced_offset if self._flushing else self.log.state.log_end_offset
        if end > self.high_watermark:
            if self.followers:
                end = self._lowest_log_end(end)
            if end > self.high_watermark:
                self._high_watermark_moved(end)

    def _lowest_log_end(self, end: int) -> int:
        """Return the lowest log end of the maximal ISR and of the followers that may soon join it
        (waiting for these lets them catch up), at most `end`; the high watermark if too few
        replicas are in sync."""
        if len(self.isr) < self.min_in_sync:
            return self.high_watermark
        maximal = self._maximal
        for node, follower in self.followers.items():
            if follower.log_end_offset < end and (node in maximal or self._may_join_soon(follower)):
                end = follower.log_end_offset
        return end

    def _may_join_soon(self, follower: Follower) -> bool:
        owner = self._owner
        return follower.is_caught_up(
            self.log.state.log_end_offset, owner.now(), owner.lag_s
        ) and self._is_eligible(follower)

    def _high_watermark_moved(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self._purgatory.touch(self)
        if self.watchers:
            self._notify_watchers(wake=False)
        if self.readers:
            self._notify_readers()
        self._offset_waiters.release(high_watermark)

    def end_offset(self, isolation_level: int) -> int:
        """Return the offset at which a reader of this isolation level must stop."""
        if isolation_level == READ_COMMITTED:
            return self.log.state.last_stable_offset(self.high_watermark)
        return self.high_watermark

    # --- followers, on the leader ---

    def watch(self, fetched: FetchedPartition, session: FetchSession) -> None:
        """Notify a session of changes of this partition: a follower's session always, a consumer's
        only once, so that many idle sessions cost nothing."""
        if not session.privileged:
            self.readers[fetched] = session
            if len(self.readers) > self._readers_max:
                self._forget_readers()
        elif fetched not in self.watchers:
            self.watchers = {f: s for f, s in self.watchers.items() if f.session is s}
            self.watchers[fetched] = session

    def _forget_readers(self) -> None:
        """Drop the sessions that have ended, unless their last request still waits. A partition
        without writes would keep them forever."""
        self.readers = {
            fetched: session
            for fetched, session in self.readers.items()
            if fetched.session is session or (session.is_over and self._purgatory.awaits(session))
        }
        self._readers_max = max(READERS_MIN, 2 * len(self.readers))

    def _notify_watchers(self, *, wake: bool) -> None:
        """Notify the followers' sessions; with `wake`, also wake their waiting requests."""
        for fetched, session in self.watchers.items():
            if fetched.session is session:
                session.dirty[fetched.key] = fetched
                if wake:
                    self._purgatory.touch(session)

    def _notify_readers(self) -> None:
        """Notify the consumers' sessions that they may read further, even a session that has ended,
        since its last request may still wait."""
        readers, self.readers = self.readers, {}
        for fetched, session in readers.items():
            if fetched.session is session or session.is_over:
                session.dirty[fetched.key] = fetched
                self._purgatory.touch(session)

    def follower_fetched(self, fetch: FollowerFetch, fetched: FetchedPartition) -> None:
        """Record a follower's progress from its fetch. Raises KafkaError(NOT_LEADER_OR_FOLLOWER)
        for a broker that is not a replica of the partition, or whose broker epoch is outdated."""
        node_id, broker_epoch = fetch.node_id, fetch.broker_epoch
        follower = self.followers.get(node_id)
        if follower is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} is not a replica of {self.tp}"
            )
        if broker_epoch != NO_BROKER_EPOCH:
            broker = self._owner.broker(node_id)
            if broker is not None and broker.broker_epoch > broker_epoch:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    f"broker {node_id} fetches {self.tp} under epoch {broker_epoch}, "
                    f"but has registered again with {broker.broker_epoch}",
                )
        had, started = follower.log_end_offset, follower.log_start_offset
        follower.record_fetch(fetch, fetched, self.log.state.log_end_offset)
        if node_id not in self._maximal:
            self._expand(follower)
        if follower.log_end_offset != had:
            self.advance_high_watermark()
        if follower.log_start_offset != started:
            self._purgatory.touch(self)

    def _is_eligible(self, follower: Follower) -> bool:
        """Return whether the controller would accept the follower into the ISR: it is alive, and
        its incarnation is the one that the controller knows (KIP-841, 903)."""
        broker = self._owner.broker(follower.node_id)
        return (
            broker is not None
            and broker.may_lead
            and follower.broker_epoch in (NO_BROKER_EPOCH, broker.broker_epoch)
        )

    def _expand(self, follower: Follower) -> None:
        """Propose a follower for the ISR if it has all committed records and has reached the
        leader's epoch."""
        if (
            self.proposal is None
            and follower.log_end_offset >= self.high_watermark
            and follower.log_end_offset >= self.epoch_start_offset
            and self._is_eligible(follower)
            and self._owner.now() >= self._no_proposal_until
        ):
            self._propose((*self.isr, follower.node_id), follower.node_id)

    def expand(self) -> None:
        """Propose a follower that is caught up and could not be proposed before, because there was
        another proposal. (Other followers must fetch again first, so that an inactive follower does
        not join and leave repeatedly.)"""
        if self.followers and len(self._maximal) <= len(self.followers):
            end, now = self.log.state.log_end_offset, self._owner.now()
            for node, follower in self.followers.items():
                if node not in self._maximal and follower.is_caught_up(end, now, self._owner.lag_s):
                    self._expand(follower)

    def shrink(self, now: float) -> list[int]:
        """Propose to remove the members of the ISR that have not been caught up for
        `replica.lag.time.max.ms`. Returns them."""
        if self.proposal is not None or not self.leads or len(self.isr) < 2:
            return []
        end, lag_s, followers = self.log.state.log_end_offset, self._owner.lag_s, self.followers
        slow = [
            node
            for node in self.isr
            if node != self.node_id
            and (node not in followers or not followers[node].is_caught_up(end, now, lag_s))
        ]
        if slow:
            self._propose(tuple(node for node in self.isr if node not in slow), None)
        return slow

    def _propose(self, isr: tuple[int, ...], joining: int | None) -> None:
        epochs = {node: follower.confirmed_epoch for node, follower in self.followers.items()}
        if (this_broker := self._owner.broker(self.node_id)) is not None:
            epochs[self.node_id] = this_broker.broker_epoch
        members = tuple((node, epochs.get(node, NO_BROKER_EPOCH)) for node in isr)
        self.proposal = Proposal(members, self.leader_epoch, self.partition_epoch, joining)
        if joining is not None:
            self._maximal = frozenset(isr)
        self._owner.propose(self)

    def accepted(
        self, proposal: Proposal, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> None:
        """Apply a proposal that the controller has committed, now or before."""
        if (
            self.proposal is proposal
            and leader_epoch == self.leader_epoch
            and partition_epoch >= self.partition_epoch
        ):
            self.partition_epoch = partition_epoch
            self._committed(isr)
            self.advance_high_watermark()
            self.expand()
            self._wake_all()

    def refused(self, proposal: Proposal) -> None:
        """Take back a proposal that the controller has rejected for good."""
        if self.proposal is proposal:
            self._committed(self.isr)
            self._no_proposal_until = self._owner.now() + PROPOSAL_BACKOFF_S
            self.advance_high_watermark()

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of all live replicas, for which DeleteRecords waits."""
        low = self.log.state.log_start_offset
        for node, follower in self.followers.items():
            if follower.log_start_offset < low:
                broker = self._owner.broker(node)
                if broker is not None and not broker.fenced:
                    low = follower.log_start_offset
        return low

    # --- following ---

    def append_as_follower(self, data: Data, leader_epoch: int, now_ms: int) -> Replicated:
        """Append the whole batches that the leader of `leader_epoch` sent; a batch of a later epoch
        and everything after it are left out. Raises CorruptBatch, KafkaError, StorageError like
        `Appender.append_as_follower`."""
        try:
            replicated = self.log.appender.append_as_follower(data, now_ms, epoch_max=leader_epoch)
        except StorageError as e:
            if not e.undone:
                self._owner.failed(self, e)
            raise
        if replicated.rolled:
            self._owner.flush(self)
        self._purgatory.touch(self.end_key)
        return replicated

    def follow_high_watermark(self, high_watermark: int) -> None:
        """Adopt the leader's high watermark, limited to this log's end."""
        high_watermark = min(high_watermark, self.log.state.log_end_offset)
        if high_watermark > self.high_watermark:
            self._high_watermark_moved(high_watermark)

    def follow_log_start(self, offset: int) -> bool:
        """Advance the log start to the leader's. Returns whether it moved."""
        offset = min(offset, self.log.state.log_end_offset)
        if offset <= self.log.state.log_start_offset:
            return False
        self.high_watermark = max(self.high_watermark, offset)
        self.delete_before(offset)
        return True

    @property
    def must_flush(self) -> bool:
        """Whether `flush.messages` requires a sync before the leader may count the last append."""
        log = self.log
        return (
            log.state.log_end_offset - log.durability.durable_offset >= self.config.flush_messages
        )

    def truncated(self) -> None:
        """Move the watermarks back to the end of the log, which was truncated or restarted."""
        end, start = self.log.state.log_end_offset, self.log.state.log_start_offset
        self.high_watermark = max(min(self.high_watermark, end), start)
        self.synced_offset = min(self.synced_offset, end)
        self.touch()

    # --- waiting ---

    async def wait_for_high_watermark(self, offset: int, deadline: float, epoch: int) -> bool:
        """Wait until the high watermark reaches `offset`. Returns False if `deadline` (trio's
        clock) passes.

        `epoch` is the leader epoch that appended the records before `offset`. A later epoch may
        have replaced them, and then the high watermark says nothing about them.

        Raises NOT_LEADER_OR_FOLLOWER when `epoch` has ended, NOT_ENOUGH_REPLICAS_AFTER_APPEND when
        fewer than `min.insync.replicas` stayed in sync, KAFKA_STORAGE_ERROR when the disk failed.
        """
        with trio.CancelScope(deadline=deadline):
            while self.high_watermark < offset and self._can_acknowledge(epoch):
                await self._offset_waiters.wait(offset)
        if self.offline is not None:
            raise without_frames(self.offline)
        if self.leader_epoch != epoch or not self.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.high_watermark < offset and self.under_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, self._too_few_in_sync())
        return self.high_watermark >= offset

    def is_committed(self, offset: int, epoch: int) -> bool:
        """Return whether `wait_for_high_watermark` would return True at once."""
        return (
            self.high_watermark >= offset
            and self.leads
            and self.leader_epoch == epoch
            and self.offline is None
        )

    async def wait_until_safe(self, offset: int, epoch: int) -> bool:
        """Wait without a timeout until the high watermark has reached `offset`. Returns False if
        the leadership of `epoch` ends, or the disk fails, before that. While too few replicas are
        in sync, it continues to wait."""

        def over() -> bool:
            return not self.leads or self.leader_epoch != epoch or self.offline is not None

        await self._purgatory.until(
            lambda: self.high_watermark >= offset or over(), (self,), float("inf")
        )
        return not over()

    def _can_acknowledge(self, epoch: int) -> bool:
        """Return whether records appended in `epoch` can still be acknowledged."""
        return (
            self.leads
            and self.leader_epoch == epoch
            and self.offline is None
            and not (self.followers and self.under_min_isr)
        )

    async def wait_for_flush(self, offset: int, deadline: float) -> bool:
        """Wait until the records below `offset` are synced, or no sync is required any longer.
        Returns False if `deadline` passes. Raises KAFKA_STORAGE_ERROR when the disk failed."""

        def ready() -> bool:
            return self.synced_offset >= offset or not self._flushing

        await self._purgatory.until(ready, (self,), deadline)
        if self.offline is not None:
            raise without_frames(self.offline)
        return ready()

    def touch(self) -> None:
        """Wake everything that waits for the partition, to check again."""
        self._purgatory.touch(self)
        self._purgatory.touch(self.end_key)
        if self.watchers:
            self._notify_watchers(wake=True)
        if self.readers:
            self._notify_readers()

    def _wake_all(self) -> None:
        """Like `touch`, and also wake the tasks that wait for the high watermark."""
        self._offset_waiters.release_all()
        self.touch()

    def fail(self, error: KafkaError) -> None:
        """Take the partition offline, because its disk failed: waiting and later calls raise
        `error`."""
        self.offline = without_frames(error)
        self._flushing = False
        self._wake_all()

    def stop(self) -> None:
        """End the partition, which was deleted or moved away."""
        self.leads = False
        self._wake_all()
