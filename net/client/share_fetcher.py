"""Fetches for a share consumer: one task per broker with one request in flight, in the broker's
share session (KIP-932).

Records are fetched only while a poll waits for them, since fetched records are locked for a limited
time. Acknowledgements are sent with the next fetch, or in a request of their own if a caller waits
for them (`commit`) or if they renew locks.

Both sides count the epoch of the session. When they disagree, a new session is opened; the broker
still knows which records the member holds, so pending acknowledgements are sent in the new session.
When a connection is lost, the last request's acknowledgements may or may not have been applied;
records that are not acknowledged are delivered again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import trio
from msgspec import Struct, field

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.share.partition_state import AcknowledgeType, AcquireMode
from pk.core.values import TopicIdPartition, TopicPartition, Uuid
from pk.core.wire.messages import share_acknowledge as acknowledging
from pk.core.wire.messages import share_fetch as fetching
from pk.net.client.cluster import Cluster
from pk.net.client.config import ShareConsumerConfig
from pk.net.client.connection import Connection
from pk.net.client.errors import ClientError, Disconnected
from pk.net.client.share_group import ShareGroup

_PURPOSE: Final = "share"
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = (1 << 31) - 1

_SESSION_LOST: Final = (
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
)
_MOVED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)

Acknowledgements = dict[int, AcknowledgeType]
"""Offset → acknowledgement of the record."""


class Delivery(Struct):
    """The records of one partition in one fetch."""

    partition: TopicPartition
    broker_id: int
    data: memoryview
    acquired: list[tuple[int, int, int]]
    """(first offset, last offset, delivery count)."""
    lock_until: float
    """The latest time, by trio's clock, at which the lock may expire and another member may get the
    records."""


class _Queue(Struct):
    """The acknowledgements to send for the records of one partition."""

    ids: TopicIdPartition
    acknowledgements: Acknowledgements = field(default_factory=Acknowledgements)


class ShareFetcherEvents(NamedTuple):
    """The callbacks of a share consumer's fetcher."""

    on_delivery: Callable[[Delivery], None]
    on_outcome: Callable[[TopicPartition, Acknowledgements, KafkaError | ClientError | None], None]
    """Called when a broker has answered these acknowledgements; None: it accepted them."""
    on_failure: Callable[[Exception], None]
    """Called with an error that a poll must raise."""
    want_metadata: Callable[[], None]
    """Called if a leader cannot be reached or has changed."""


class ShareFetcher:
    """The fetching of a share consumer."""

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        group: ShareGroup,
        nursery: trio.Nursery,
        events: ShareFetcherEvents,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.group = group
        self.wanted = 0
        """The number of records that a poll waits for; 0 if none waits."""
        self.events = events
        self._nursery = nursery
        self._brokers: dict[int, BrokerFetcher] = {}

    def want(self, records: int) -> None:
        """Set how many records a poll waits for; 0 if none waits."""
        self.wanted = records
        if records:
            self.follow_leaders()

    def follow_leaders(self) -> None:
        """Start tasks for the leaders of the assigned partitions, and wake all tasks."""
        for partition in self.group.assigned:
            node_id = self.cluster.metadata.leader(partition)[0]
            if node_id >= 0 and node_id not in self._brokers:
                broker = self._brokers[node_id] = BrokerFetcher(self, node_id)
                self._nursery.start_soon(broker.run)
        for broker in self._brokers.values():
            broker.wake()

    def acknowledge(
        self,
        broker_id: int,
        partition: TopicPartition,
        ids: TopicIdPartition,
        acknowledgements: Acknowledgements,
    ) -> None:
        """Queue acknowledgements for the broker that delivered the records. They are sent at the
        next opportunity."""
        self._brokers[broker_id].acknowledge(partition, ids, acknowledgements)

    def flush(self) -> None:
        """Send the queued acknowledgements now, without a fetch."""
        for broker in self._brokers.values():
            broker.flush()

    @property
    def is_idle(self) -> bool:
        """Whether all acknowledgements have been answered."""
        return all(broker.is_idle for broker in self._brokers.values())

    async def close(self) -> None:
        """End every session; this sends the remaining acknowledgements."""
        async with trio.open_nursery() as nursery:
            for broker in self._brokers.values():
                nursery.start_soon(broker.close)


class BrokerFetcher:
    """Fetches from one broker, and sends the acknowledgements of its records to it."""

    def __init__(self, fetcher: ShareFetcher, node_id: int) -> None:
        self._fetcher = fetcher
        self._config = fetcher.config
        self._node_id = node_id
        self._epoch = 0
        self._session: set[TopicIdPartition] = set()
        self._queue: dict[TopicPartition, _Queue] = {}
        self._in_flight = False
        self._flush_requested = False
        self._closing = False
        self._lock = trio.Lock()
        self._wake = trio.Event()

    def wake(self) -> None:
        """Wake the task."""
        self._wake.set()

    def flush(self) -> None:
        """Send the queued acknowledgements, without a fetch."""
        self._flush_requested = bool(self._queue)
        self.wake()

    def acknowledge(
        self, partition: TopicPartition, ids: TopicIdPartition, acknowledgements: Acknowledgements
    ) -> None:
        """Queue acknowledgements."""
        self._queue.setdefault(partition, _Queue(ids)).acknowledgements.update(acknowledgements)
        if AcknowledgeType.RENEW in acknowledgements.values():
            self._flush_requested = True
            self.wake()

    @property
    def is_idle(self) -> bool:
        """Whether all acknowledgements have been answered."""
        return not self._queue and not self._in_flight

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._wake = trio.Event()
            if self._closing or not (
                self._flush_requested or (self._fetcher.wanted and self._led_partitions())
            ):
                await self._wake.wait()
                continue
            async with self._lock:
                failed = not await self._step()
            if failed:
                await trio.sleep(self._config.retry_backoff_ms / 1000)

    def _led_partitions(self) -> dict[TopicPartition, TopicIdPartition]:
        """Return the assigned partitions that this broker leads."""
        metadata = self._fetcher.cluster.metadata
        return {
            partition: ids
            for partition, ids in self._fetcher.group.assigned.items()
            if metadata.leader(partition)[0] == self._node_id
        }

    async def _step(self) -> bool:
        """Send one request. Returns whether it succeeded."""
        try:
            connection = await self._fetcher.cluster.connection(self._node_id, _PURPOSE)
        except (ClientError, ProtocolError, KafkaError) as e:
            self._handle_lost_broker(e)
            return False
        if self._flush_requested and self._epoch:
            self._flush_requested = False
            return await self._acknowledge(connection, self._epoch)
        self._flush_requested = self._flush_requested and bool(self._queue)
        return await self._fetch(connection)

    def _handle_lost_broker(self, error: Exception) -> None:
        """Handle a broker that cannot be reached: it will give the records that we hold to other
        members."""
        self._epoch = 0
        self._fetcher.events.want_metadata()
        queue, self._queue = self._queue, {}
        for partition, entry in queue.items():
            failure = (
                error if isinstance(error, KafkaError | ClientError) else Disconnected(str(error))
            )
            self._fetcher.events.on_outcome(partition, entry.acknowledgements, failure)
        self._flush_requested = False

    # --- ShareFetch ---

    async def _fetch(self, connection: Connection) -> bool:
        fetcher, config = self._fetcher, self._config
        led = self._led_partitions()
        wanted = set(led.values())
        opens = self._epoch == 0
        queue = {} if opens else self._take_queue(renewals=False)
        named = wanted if opens else wanted - self._session
        forgotten = set[TopicIdPartition]() if opens else self._session - wanted
        records_max = max(1, fetcher.wanted)
        version = connection.version_of(fetching.ShareFetchRequest.API_KEY, low=1)
        request = fetching.ShareFetchRequest(
            group_id=fetcher.group.group_id,
            member_id=fetcher.group.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=config.fetch_max_wait_ms if fetcher.wanted else 0,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_records=records_max,
            batch_size=records_max,
            topics=_fetch_topics(named, queue),
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in _by_topic(forgotten).items()
            ],
        )
        if version >= 2 and config.share_acquire_mode.lower() == "record_limit":
            request.share_acquire_mode = AcquireMode.RECORD_LIMIT
        elif version < 2 and config.share_acquire_mode.lower() == "record_limit":
            error = KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                (
                    "share.acquire.mode=record_limit needs ShareFetch 2, which the broker does not "
                    "have"
                ),
            )
            fetcher.events.on_failure(error)
            return False
        response = await self._request(connection, request, version, queue)
        if response is None:
            return False
        self._session = wanted
        locked_s = response.acquisition_lock_timeout_ms / 1000
        self._take(response, queue, trio.current_time() + locked_s)
        return True

    def _take(self, response: Any, queue: dict[TopicPartition, _Queue], lock_until: float) -> None:
        fetcher = self._fetcher
        fetcher.cluster.metadata.note_endpoints(response.node_endpoints)
        by_ids = {entry.ids: (partition, entry) for partition, entry in queue.items()}
        names = {ids: partition for partition, ids in fetcher.group.assigned.items()}
        for topic in response.responses:
            for data in topic.partitions:
                ids = TopicIdPartition(topic.topic_id, data.partition_index)
                sent = by_ids.pop(ids, None)
                if sent is not None:
                    error = _error(data.acknowledge_error_code, data.acknowledge_error_message)
                    fetcher.events.on_outcome(sent[0], sent[1].acknowledgements, error)
                partition = names.get(ids) or (sent[0] if sent is not None else None)
                if partition is None:
                    continue  # revoked meanwhile: the locks expire, or the session ends
                if data.error_code:
                    self._handle_partition_error(partition, data)
                elif data.acquired_records:
                    acquired = [
                        (entry.first_offset, entry.last_offset, entry.delivery_count)
                        for entry in data.acquired_records
                    ]
                    records = memoryview(data.records or b"")
                    fetcher.events.on_delivery(
                        Delivery(partition, self._node_id, records, acquired, lock_until)
                    )
        for partition, entry in by_ids.values():
            fetcher.events.on_outcome(partition, entry.acknowledgements, None)

    def _handle_partition_error(self, partition: TopicPartition, data: Any) -> None:
        """Handle the error of a partition."""
        if data.error_code not in _MOVED:
            self._fetcher.events.on_failure(
                KafkaError(data.error_code, f"{partition.shown}: {data.error_message or ''}")
            )
            return
        self._session.discard(
            self._fetcher.group.assigned.get(partition, TopicIdPartition(b"", -1))
        )
        leader = data.current_leader
        metadata = self._fetcher.cluster.metadata
        if leader.leader_epoch > 0 and metadata.note_leader(
            partition, leader.leader_id, leader.leader_epoch
        ):
            self._fetcher.cluster.metadata_changed()
        else:
            self._fetcher.events.want_metadata()

    # --- ShareAcknowledge ---

    async def _acknowledge(self, connection: Connection, epoch: int) -> bool:
        """Send acknowledgements; renewals first, since they need a request of their own."""
        succeeded = True
        for renewals in (True, False):
            queue = self._take_queue(renewals=renewals)
            if not queue and (renewals or epoch != FINAL_EPOCH):
                continue
            version = connection.version_of(acknowledging.ShareAcknowledgeRequest.API_KEY, low=1)
            if renewals and version < 2:
                error = KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    "renewing a lock needs ShareAcknowledge 2, which the broker does not have",
                )
                for partition, entry in queue.items():
                    self._fetcher.events.on_outcome(partition, entry.acknowledgements, error)
                continue
            ends = epoch == FINAL_EPOCH and not renewals
            request = acknowledging.ShareAcknowledgeRequest(
                group_id=self._fetcher.group.group_id,
                member_id=self._fetcher.group.member_id,
                share_session_epoch=FINAL_EPOCH if ends else self._epoch,
                topics=_acknowledge_topics(queue),
            )
            if renewals:
                request.is_renew_ack = True
            response = await self._request(connection, request, version, queue)
            if response is None:
                succeeded = False
                break
            by_ids = {entry.ids: (partition, entry) for partition, entry in queue.items()}
            for topic in response.responses:
                for data in topic.partitions:
                    sent = by_ids.pop(TopicIdPartition(topic.topic_id, data.partition_index), None)
                    if sent is not None:
                        error = _error(data.error_code, data.error_message)
                        self._fetcher.events.on_outcome(sent[0], sent[1].acknowledgements, error)
            for partition, entry in by_ids.values():
                self._fetcher.events.on_outcome(partition, entry.acknowledgements, None)
        return succeeded

    async def close(self) -> None:
        """End the session; this sends the remaining acknowledgements."""
        self._closing = True
        async with self._lock:
            if self._epoch == 0:
                return
            try:
                connection = await self._fetcher.cluster.connection(self._node_id, _PURPOSE)
            except (ClientError, ProtocolError, KafkaError) as e:
                self._handle_lost_broker(e)
                return
            await self._acknowledge(connection, FINAL_EPOCH)
            self._epoch = 0

    # --- requests ---

    def _take_queue(self, *, renewals: bool) -> dict[TopicPartition, _Queue]:
        """Take the acknowledgements to send from the queue: either renewals or all others."""
        taken: dict[TopicPartition, _Queue] = {}
        for partition, entry in list(self._queue.items()):
            acknowledgements = {
                offset: kind
                for offset, kind in entry.acknowledgements.items()
                if (kind is AcknowledgeType.RENEW) is renewals
            }
            if acknowledgements:
                taken[partition] = _Queue(entry.ids, acknowledgements)
                for offset in acknowledgements:
                    del entry.acknowledgements[offset]
                if not entry.acknowledgements:
                    del self._queue[partition]
        return taken

    async def _request(
        self,
        connection: Connection,
        request: Any,
        version: int,
        queue: dict[TopicPartition, _Queue],
    ) -> Any | None:
        """Return the response, or None if the whole request failed. Advances the session's
        epoch."""
        self._in_flight = True
        try:
            response = await connection.request(request, version=version)
        except (ClientError, ProtocolError, KafkaError) as e:
            for partition, entry in queue.items():
                self._queue.pop(partition, None)
                failure = e if isinstance(e, KafkaError | ClientError) else Disconnected(str(e))
                self._fetcher.events.on_outcome(partition, entry.acknowledgements, failure)
            self._handle_lost_broker(e)
            return None
        finally:
            self._in_flight = False
        if response.error_code:
            self._epoch = 0
            error = KafkaError(response.error_code, response.error_message or "")
            if response.error_code in _SESSION_LOST:
                for partition, entry in queue.items():
                    # The broker still knows the records that we hold: send the acknowledgements in
                    # the next session.
                    waiting = self._queue.setdefault(partition, _Queue(entry.ids))
                    waiting.acknowledgements = {
                        **entry.acknowledgements,
                        **waiting.acknowledgements,
                    }
            else:
                for partition, entry in queue.items():
                    self._fetcher.events.on_outcome(partition, entry.acknowledgements, error)
                if not error.retriable:
                    self._fetcher.events.on_failure(error)
            return None
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        return response


def _error(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(code, message or "") if code else None


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[Uuid, list[int]]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, number in partitions:
        topics.setdefault(topic_id, []).append(number)
    return topics


def _batches(acknowledgements: Acknowledgements) -> list[tuple[int, int, list[int]]]:
    """Return (first offset, last offset, types) of each run of consecutive offsets, with one type
    for the whole run or one for each offset."""
    ranges: list[tuple[int, int, list[int]]] = []
    for offset in sorted(acknowledgements):
        kind = int(acknowledgements[offset])
        if ranges and ranges[-1][1] == offset - 1:
            first, _, kinds = ranges[-1]
            kinds.append(kind)
            ranges[-1] = (first, offset, kinds)
        else:
            ranges.append((offset, offset, [kind]))
    return [
        (first, last, kinds[:1] if len(set(kinds)) == 1 else kinds) for first, last, kinds in ranges
    ]


def _fetch_topics(
    named: set[TopicIdPartition], queue: dict[TopicPartition, _Queue]
) -> list[fetching.FetchTopic]:
    acknowledgements = {entry.ids: entry.acknowledgements for entry in queue.values()}
    return [
        fetching.FetchTopic(
            topic_id=topic_id,
            partitions=[
                fetching.FetchPartition(
                    partition_index=number,
                    acknowledgement_batches=[
                        fetching.AcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=kinds
                        )
                        for first, last, kinds in _batches(
                            acknowledgements.get(TopicIdPartition(topic_id, number), {})
                        )
                    ],
                )
                for number in sorted(numbers)
            ],
        )
        for topic_id, numbers in _by_topic(named | acknowledgements.keys()).items()
    ]


def _acknowledge_topics(
    queue: dict[TopicPartition, _Queue],
) -> list[acknowledging.AcknowledgeTopic]:
    acknowledgements = {entry.ids: entry.acknowledgements for entry in queue.values()}
    return [
        acknowledging.AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                acknowledging.AcknowledgePartition(
                    partition_index=number,
                    acknowledgement_batches=[
                        acknowledging.AcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=kinds
                        )
                        for first, last, kinds in _batches(
                            acknowledgements[TopicIdPartition(topic_id, number)]
                        )
                    ],
                )
                for number in sorted(numbers)
            ],
        )
        for topic_id, numbers in _by_topic(acknowledgements).items()
    ]
