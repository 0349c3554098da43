"""Fetches from one leader: all partitions that this broker follows there, in one fetch session
(KIP-227).

A fetcher is a task with its own channel to the leader, since a response that waits for records
delays the responses after it. A request lists the partitions whose position has changed since the
previous request; the leader remembers the others. It has the epoch of the last record of each log,
and the leader responds with the offset at which the logs diverge, if they do (KIP-595). Then the
log is truncated (core/broker/replication/truncation.py) and fetched again.

One request waits at the leader for new records. When partitions are added during that wait (their
leader is new), the next request follows at once. The leader then responds to the first, so new
partitions never wait for the end of a long poll.

The leader sends whole batches; their CRCs are checked, and they are written unchanged. Nothing
awaits between reading a partition's state and appending to its log; after an await, the state is
read again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from math import inf
from typing import Any, Final, NoReturn

import trio
from msgspec import Struct

from pk.core.broker.peers import Channel, PeerLost, Peers
from pk.core.broker.replication.disconnected_leaders import DisconnectedLeaders
from pk.core.broker.replication.log_reconciler import Divergence, LogReconciler
from pk.core.broker.replication.partition import Partition, Stop
from pk.core.broker.replication.partition_fetch_state import FetchPosition, PartitionFetchState
from pk.core.broker.replication.replica_logs import ReplicaLogs
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.replication.replication_quotas import Quota, is_throttled
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, error_name, without_frames
from pk.core.log.failures import StorageError
from pk.core.record.batch import HEADER_BYTES, iter_headers
from pk.core.values import ZERO_UUID, TopicIdPartition, Uuid
from pk.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

logger = logging.getLogger("pk.replication")

CONNECT_MS: Final = 5_000
UNREGISTERED_S: Final = 0.05
"""How often a broker that is not registered checks whether it is, in seconds."""
BACKOFF_S_MIN: Final = 0.01
"""The first pause after a failure, in seconds; it doubles up to `replica.fetch.backoff.ms`. It is
short, because the new leader may only not have applied the image yet."""
CLOCK_RESOLUTION_S: Final = 1e-6
"""A shorter wait, in seconds, counts as none: adding it to the time might not change the time, so
it would never end."""
APPENDED_AT_ONCE: Final = 1 << 20
"""The number of bytes that are appended between two checkpoints."""
VERSION_DIVERGING_EPOCH: Final = 12
VERSION_REPLICA_STATE: Final = 15
FETCH: Final = 1

STOPPED_S_MIN: Final = 0.2
STOPPED_S_MAX: Final = 5.0
"""The longest pause before a follower that stopped tries again, in seconds."""

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
TRANSIENT: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""The errors that mean that one of the brokers has not applied the current image yet."""


class _PendingRequest:
    """A request without a response so far."""

    __slots__ = ("answer", "error", "full", "number")

    def __init__(self, number: int, full: bool) -> None:
        self.number = number
        self.full = full
        self.answer: FetchResponse | None = None
        self.error: Exception | None = None


class FetcherEnvironment(Struct, frozen=True):
    """The parts of a broker that all its fetchers use."""

    state: BrokerState
    replicas: Replicas
    peers: Peers
    quota: Quota
    """Limits the fetches of throttled replicas."""
    disconnected_leaders: DisconnectedLeaders
    """Notified of lost connections to leaders."""
    replica_logs: ReplicaLogs
    """Reports partitions that stopped to the controller (log_reconciler.py)."""


class ReplicaFetcher:
    """Fetches partitions from one leader over one channel. `run` is its task."""

    def __init__(self, leader: int, index: int, environment: FetcherEnvironment) -> None:
        """`index` is the fetcher's number among `num.replica.fetchers`."""
        self.leader = leader
        self.index = index
        self.scope = trio.CancelScope()
        self._environment = environment
        self._state = environment.state
        self._replicas = environment.replicas
        self._quota = environment.quota
        self._fetch_states: dict[TopicIdPartition, PartitionFetchState] = {}
        self._dirty: dict[TopicIdPartition, PartitionFetchState] = {}
        """The partitions whose position the leader may not know."""
        self._forgotten: dict[TopicIdPartition, str] = {}
        """The partitions in the leader's session that are no longer fetched."""
        self._paused: dict[TopicIdPartition, PartitionFetchState] = {}
        self._to_flush: dict[Partition, None] = {}
        """The partitions whose new records must be synced before the leader may count them."""
        self._changed = trio.Event()
        """Set when something happens for which the task may be waiting."""
        self._urgent = False
        """Whether partitions were added that the current request does not include."""
        self._number = 0
        self._session_id = 0
        self._session_epoch = 0
        self._refused = False
        """Whether the leader did not open a session."""
        self._backoff_s = 0.0
        self._reconciler = LogReconciler(self._state, self._replicas, self)

    def __len__(self) -> int:
        return len(self._fetch_states)

    def add(self, partition: Partition) -> None:
        """Start to fetch a partition, or start again in its new leader epoch."""
        fetch_state = PartitionFetchState(partition)
        fetch_state.since = self._number + 1
        old = self._fetch_states.pop(fetch_state.key, None)
        if old is not None:
            self._drop(old)
        self._fetch_states[fetch_state.key] = self._dirty[fetch_state.key] = fetch_state
        if partition.must_flush:
            self._to_flush[partition] = None
        self._urgent = True
        self._backoff_s = 0.0
        self._changed.set()

    def remove(self, partition: Partition) -> None:
        """Stop fetching a partition; a current truncation finishes."""
        fetch_state = self._fetch_states.pop(
            TopicIdPartition(partition.topic_id, partition.tp.partition), None
        )
        if fetch_state is not None:
            self._drop(fetch_state)

    def _drop(self, fetch_state: PartitionFetchState) -> None:
        self._dirty.pop(fetch_state.key, None)
        self._paused.pop(fetch_state.key, None)
        if fetch_state.known_position is not None:
            self._forgotten[fetch_state.key] = fetch_state.partition.tp.topic

    def is_current(self, fetch_state: PartitionFetchState) -> bool:
        """Return whether the partition is still fetched, in the epoch of the request."""
        return (
            self._fetch_states.get(fetch_state.key) is fetch_state
            and fetch_state.partition.offline is None
        )

    # --- the task ---

    async def run(self) -> None:
        """Fetch until cancelled (`scope`)."""
        with self.scope:
            while True:
                try:
                    error = await self._fetch_over(await self._connect())
                except (PeerLost, KafkaError) as e:
                    error = e
                logger.info("fetching from broker %d: %s", self.leader, error)
                self._backoff_s = min(max(self._backoff_s * 2, BACKOFF_S_MIN), self._backoff_s_max)
                self._changed = trio.Event()
                await self._wait(self._backoff_s)

    @property
    def _backoff_s_max(self) -> float:
        return max(self._state.config.replica_fetch_backoff_ms / 1000, BACKOFF_S_MIN)

    async def _connect(self) -> Channel:
        while not self._fetch_states or self._state.broker_epoch < 0:
            await self._wait(UNREGISTERED_S if self._fetch_states else inf)
        endpoint = self._state.inter_broker_endpoint(self.leader)
        if endpoint is None:
            raise PeerLost(f"the address of broker {self.leader} is unknown")
        peers = self._environment.peers
        return await peers.connect(endpoint.host, endpoint.port, timeout_ms=CONNECT_MS)

    async def _fetch_over(self, channel: Channel) -> Exception:
        """Fetch over one channel until it breaks, or the leader refuses a request. Returns the
        error."""
        self._reset_session()
        disconnected_leaders = self._environment.disconnected_leaders
        channel.when_lost(lambda: disconnected_leaders.lost(self.leader))
        try:
            await self._fetch_until_error(channel)
        except (PeerLost, KafkaError) as e:
            return e
        finally:
            channel.close()

    async def _fetch_until_error(self, channel: Channel) -> NoReturn:
        """Send requests and handle responses until a request fails."""
        in_flight: deque[_PendingRequest] = deque()
        while True:
            if channel.version_of(FETCH) < VERSION_DIVERGING_EPOCH:
                await self._reconciler.ask_for_epoch_ends(channel, self._dirty.values())
            if self._to_flush:
                to_flush, self._to_flush = self._to_flush, {}
                await self._flush(to_flush)
            if not in_flight or (len(in_flight) == 1 and self._may_send_next(in_flight[0])):
                request = self._request(channel.version_of(FETCH))
                if request is not None:
                    pending = _PendingRequest(self._number, request.session_epoch == 0)
                    in_flight.append(pending)
                    timeout_ms = request.max_wait_ms + self._state.config.replica_socket_timeout_ms
                    then = partial(self._complete, pending)
                    channel.send(request, timeout_ms=timeout_ms, then=then)
            if not in_flight:
                await self._wait(self._paused_for())
                continue
            first = in_flight[0]
            while first.answer is None and not (len(in_flight) == 1 and self._may_send_next(first)):
                if first.error is not None:
                    raise without_frames(first.error)
                # A partition whose pause has ended still waits if no other request may follow.
                may_follow = len(in_flight) == 1 and self._has_session(first)
                await self._wait(self._paused_for() if may_follow else inf)
            if first.answer is not None:
                self._backoff_s = 0.0
                await self._handle_response(channel, in_flight.popleft(), first.answer)

    def _may_send_next(self, pending: _PendingRequest) -> bool:
        """Return whether another request may follow before this one gets its response: not if this
        one opens the session."""
        if not self._has_session(pending):
            return False
        return self._urgent or (bool(self._paused) and not self._paused_for())

    def _has_session(self, pending: _PendingRequest) -> bool:
        return not pending.full and self._session_id != 0

    def _complete(
        self, pending: _PendingRequest, answer: FetchResponse | None, error: Exception | None
    ) -> None:
        pending.answer, pending.error = answer, error
        self._changed.set()

    async def _wait(self, timeout_s: float) -> None:
        """Wait until something happens, or the timeout expires."""
        if timeout_s == inf:
            await self._changed.wait()
        else:
            with trio.move_on_after(timeout_s):
                await self._changed.wait()
        self._changed = trio.Event()

    # --- requests ---

    def _reset_session(self) -> None:
        """Make the next request open a new session with all partitions, because the leader's
        session is not as expected."""
        self._session_epoch = 0
        self._forgotten.clear()
        for fetch_state in self._fetch_states.values():
            fetch_state.known_position = None
            if fetch_state.key not in self._paused:
                self._dirty[fetch_state.key] = fetch_state

    def _request(self, version: int) -> FetchRequest | None:
        """Return the next request, or None if there is nothing to fetch."""
        self._resume()
        config, state = self._state.config, self._state
        topics: dict[str, FetchTopic] = {}
        throttled = self._quota.exceeded
        for key, fetch_state in list(self._dirty.items()):
            partition = fetch_state.partition
            if throttled and not fetch_state.in_sync and self._is_throttled(partition):
                self._pause(fetch_state, self._quota.wait_s)
                continue
            log = partition.log
            position = FetchPosition(
                fetch_state.leader_epoch,
                log.state.log_end_offset,
                log.state.epochs.latest,
                log.state.log_start_offset,
            )
            if position != fetch_state.known_position:
                self._add_to_request(topics, fetch_state, position, version)
            del self._dirty[key]
        fetched = len(self._fetch_states) - len(self._paused)
        if not fetched and (not self._forgotten or self._session_epoch == 0):
            return None
        forgotten: dict[Uuid, ForgottenTopic] = {}
        for (topic_id, number), name in self._forgotten.items():
            entry = forgotten.setdefault(topic_id, ForgottenTopic(topic=name, topic_id=topic_id))
            entry.partitions.append(number)
        self._forgotten.clear()
        self._urgent = False
        self._number += 1
        opening = self._session_epoch == 0
        request = FetchRequest(
            # The request that opens a session does not wait: only after its response may another
            # request follow.
            max_wait_ms=0 if opening and not self._refused else config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=[] if opening else list(forgotten.values()),
        )
        if version >= VERSION_REPLICA_STATE:
            request.replica_state = ReplicaState(
                replica_id=state.node_id, replica_epoch=state.broker_epoch
            )
        else:
            request.replica_id = state.node_id
        if not opening:
            self._session_epoch = self._session_epoch % 0x7FFFFFFF + 1
        return request

    def _add_to_request(
        self,
        topics: dict[str, FetchTopic],
        fetch_state: PartitionFetchState,
        position: FetchPosition,
        version: int,
    ) -> None:
        """Add the partition's position to the request."""
        partition = fetch_state.partition
        name, number = partition.tp
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=partition.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_epoch
                if version >= VERSION_DIVERGING_EPOCH
                else -1,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=self._state.config.replica_fetch_max_bytes,
            )
        )
        fetch_state.known_position = position
        self._forgotten.pop(fetch_state.key, None)

    def _is_throttled(self, partition: Partition) -> bool:
        replicas = partition.config.follower_replication_throttled_replicas
        return is_throttled(replicas, partition.tp.partition, self._state.node_id)

    # --- partitions that have to wait ---

    def _pause(self, fetch_state: PartitionFetchState, wait_s: float) -> None:
        """Leave the partition out of requests for a while; then it must be listed again."""
        fetch_state.paused_until = self._replicas.clock.time() + wait_s
        if fetch_state.known_position is not None:
            fetch_state.known_position = None
            self._forgotten[fetch_state.key] = fetch_state.partition.tp.topic
        self._dirty.pop(fetch_state.key, None)
        self._paused[fetch_state.key] = fetch_state

    def _resume(self) -> None:
        if self._paused:
            now = self._replicas.clock.time()
            for key, fetch_state in list(self._paused.items()):
                if fetch_state.paused_until - now < CLOCK_RESOLUTION_S:
                    del self._paused[key]
                    self._dirty[key] = fetch_state

    def _paused_for(self) -> float:
        """Return the seconds until the first paused partition is due; infinity if none is
        paused."""
        if not self._paused:
            return inf
        until = min(fetch_state.paused_until for fetch_state in self._paused.values())
        left = until - self._replicas.clock.time()
        return left if left >= CLOCK_RESOLUTION_S else 0.0

    def fail(
        self, fetch_state: PartitionFetchState, reason: str, level: int = logging.WARNING
    ) -> None:
        """Log an error of the partition, and pause it, longer each time."""
        fetch_state.backoff_s = min(
            max(fetch_state.backoff_s * 2, BACKOFF_S_MIN), self._backoff_s_max
        )
        partition = fetch_state.partition
        logger.log(
            level,
            "%s cannot be fetched from broker %d in epoch %d at offset %d: %s",
            partition.tp, self.leader, fetch_state.leader_epoch,
            partition.log.state.log_end_offset, reason,
        )  # fmt: skip
        self._pause(fetch_state, fetch_state.backoff_s)

    # --- responses ---

    async def _handle_response(
        self, channel: Channel, pending: _PendingRequest, answer: FetchResponse
    ) -> None:
        """Handle a response: append, truncate, restart, or retry. Raises KafkaError if the leader
        refused the whole request."""
        if answer.error_code in SESSION_ERRORS:
            self._reset_session()
            return
        if answer.error_code:
            raise KafkaError(answer.error_code)
        if pending.full:
            self._refused = not answer.session_id
        if pending.full and answer.session_id:
            self._session_id, self._session_epoch = answer.session_id, 1
        elif answer.session_id != self._session_id or not answer.session_id:
            # The leader has no space for a session, or has closed this one.
            self._session_id = answer.session_id
            self._reset_session()
        work = _ResponseWork()
        for topic in answer.responses:
            for data in topic.partitions:
                fetch_state = self._find(topic.topic_id, topic.topic, data.partition_index)
                if fetch_state is not None and fetch_state.since <= pending.number:
                    await self._handle_partition(fetch_state, data, work)
        if work.divergences:
            await self._reconciler.truncate(channel, work.divergences)
        for fetch_state in work.out_of_range:
            await self._reconciler.handle_out_of_range(channel, fetch_state)
        for fetch_state in work.moved:
            await self._reconciler.restart_after_remote(channel, fetch_state)
        if work.to_flush:
            await self._flush(work.to_flush)

    def _find(self, topic_id: Uuid, topic: str, number: int) -> PartitionFetchState | None:
        if topic_id == ZERO_UUID:  # a version that identifies topics by name
            partition = self._replicas.find(topic, number)
            topic_id = partition.topic_id if partition is not None else ZERO_UUID
        return self._fetch_states.get(TopicIdPartition(topic_id, number))

    async def _handle_partition(
        self, fetch_state: PartitionFetchState, data: PartitionData, work: _ResponseWork
    ) -> None:
        partition, code = fetch_state.partition, data.error_code
        if not self.is_current(fetch_state):
            if partition.offline is not None:
                self.remove(partition)
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._dirty[fetch_state.key] = fetch_state
            work.out_of_range.append(fetch_state)
        elif code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self._dirty[fetch_state.key] = fetch_state
            work.moved.append(fetch_state)
        elif code:
            level = logging.INFO if code in TRANSIENT else logging.WARNING
            self.fail(fetch_state, error_name(code), level)
        elif data.diverging_epoch.end_offset >= 0:
            self._dirty[fetch_state.key] = fetch_state
            work.divergences.append(
                (fetch_state, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            )
        else:
            try:
                if data.records:
                    await self._append(fetch_state, data.records, work)
                if self.is_current(fetch_state):
                    partition.follow_high_watermark(data.high_watermark)
                    if partition.follow_log_start(data.log_start_offset):
                        self._dirty[fetch_state.key] = fetch_state
                    fetch_state.in_sync = partition.log.state.log_end_offset >= data.high_watermark
                    fetch_state.backoff_s = 0.0
            except StorageError as e:
                if not e.undone:
                    self._replicas.failures.fail_partition(partition, e)
                self.fail(fetch_state, str(e))
            except KafkaError as e:
                self.fail(
                    fetch_state, f"the fetched records cannot be appended: {e}", logging.ERROR
                )
            except Exception:  # noqa: BLE001 (what it is, it is this partition's)
                self._stop_for_error(fetch_state)

    def _stop_for_error(self, fetch_state: PartitionFetchState) -> None:
        """Stop fetching the partition, after an unexpected error, until its leader epoch changes.
        As in Kafka, the replica drops out of the ISR, and the other partitions are unaffected."""
        partition = fetch_state.partition
        logger.exception(
            "%s: stopped fetching from broker %d in epoch %d: failed at offset %d",
            partition.tp, self.leader, fetch_state.leader_epoch, partition.log.state.log_end_offset,
        )  # fmt: skip
        self.remove(partition)

    def stop(self, fetch_state: PartitionFetchState, stop: Stop) -> None:
        """Report to the controller that the partition may not be truncated, and try it again
        later."""
        before = fetch_state.partition.stopped
        fetch_state.partition.stopped = stop._replace(why=before.why if before is not None else "")
        fetch_state.backoff_s = min(max(fetch_state.backoff_s * 2, STOPPED_S_MIN), STOPPED_S_MAX)
        self._pause(fetch_state, fetch_state.backoff_s)
        self._environment.replica_logs.changed(fetch_state.partition)

    async def _append(
        self, fetch_state: PartitionFetchState, records: Any, work: _ResponseWork
    ) -> None:
        """Append the received records that are new. Raises CorruptBatch, KafkaError,
        StorageError."""
        partition = fetch_state.partition
        self._dirty[fetch_state.key] = fetch_state
        try:
            await self._append_pieces(fetch_state, records, work)
        finally:  # the batches before a refused one are in the log
            if partition.must_flush:
                work.to_flush.append(partition)

    async def _append_pieces(
        self, fetch_state: PartitionFetchState, records: Any, work: _ResponseWork
    ) -> None:
        partition, now_ms = fetch_state.partition, self._replicas.clock.now_ms()
        with memoryview(records) as view:
            if self._is_throttled(partition):
                self._quota.record(len(view))
            for begin, end, base in _pieces(view, partition.log.state.log_end_offset):
                if work.appended >= APPENDED_AT_ONCE:
                    work.appended = 0
                    await trio.lowlevel.checkpoint()
                    if not self.is_current(fetch_state):
                        return
                log = partition.log
                if base < log.state.log_end_offset == log.state.log_start_offset:
                    # The leader's log begins in the middle of this batch (DeleteRecords), and this
                    # log is empty.
                    await self._reconciler.restart(fetch_state, base)
                    if not self.is_current(fetch_state):
                        return
                with view[begin:end] as piece:
                    partition.append_as_follower(piece, fetch_state.leader_epoch, now_ms)
                work.appended += end - begin

    async def _flush(self, partitions: Iterable[Partition]) -> None:
        """Sync as `flush.messages` requires, before the next fetch reports the records to the
        leader."""
        async with trio.open_nursery() as nursery:
            for partition in list(partitions):
                nursery.start_soon(self._replicas.tasks.sync, partition)


class _ResponseWork:
    """The work that a response requires beyond appending."""

    __slots__ = ("appended", "divergences", "moved", "out_of_range", "to_flush")

    def __init__(self) -> None:
        self.appended = 0
        """The number of bytes appended since the last checkpoint."""
        self.divergences: list[Divergence] = []
        self.out_of_range: list[PartitionFetchState] = []
        self.moved: list[PartitionFetchState] = []
        """The partitions whose next offset is only in remote storage."""
        self.to_flush: list[Partition] = []


def _pieces(view: memoryview, log_end_offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, end, base offset) of runs of whole batches that are not all in the log yet,
    each about as large as may be appended at once. Raises CorruptBatch."""
    begin = end = base = 0
    if len(view) > HEADER_BYTES:
        for position, header in iter_headers(view):
            if header.last_offset < log_end_offset:
                continue
            if end - begin >= APPENDED_AT_ONCE:
                yield begin, end, base
                end = begin
            if end == begin:
                begin, base = position, header.base_offset
                if len(view) - position <= APPENDED_AT_ONCE:
                    end = len(view)
                    break
            end = position + header.size
    if end > begin:
        yield begin, end, base
