"""The share consumer (KIP-932): records of a share group, each acknowledged individually.

    async with open_share_consumer("localhost:9092", {"group.id": "jobs"}) as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            ...

The members of a share group take records from the same partitions, like workers from a queue. A
delivered record is locked. If its member does not acknowledge it in time, another member gets it.

With `share.acknowledgement.mode=implicit`, a poll accepts the records that the previous poll
returned, unless `acknowledge` set another outcome for a record. With `explicit`, each record must
be acknowledged before the next poll. Either way, acknowledgements are sent with the next fetch;
`commit` sends them at once and returns their results.

When the block ends, pending acknowledgements are sent, and in the implicit mode the records last
returned are accepted. If it ends with an exception, unacknowledged records go back to the group.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self

import trio

from pk.core.errors import KafkaError, ProtocolError
from pk.core.record.batch import BatchHeader, TimestampType, check_crc, iter_headers, records
from pk.core.share.partition_state import AcknowledgeType
from pk.core.values import TopicIdPartition, TopicPartition
from pk.net.client.cluster import Cluster, in_nursery, open_cluster
from pk.net.client.config import ShareConsumerConfig, parse
from pk.net.client.connection import OnRequest
from pk.net.client.errors import ClientError, Closed, ConfigError
from pk.net.client.share_fetcher import Acknowledgements, Delivery, ShareFetcher, ShareFetcherEvents
from pk.net.client.share_group import ShareGroup

__all__ = ["AcknowledgeType", "ShareConsumer", "ShareRecord", "open_share_consumer"]

_CLOSE_MS: Final = 5_000
_METADATA_PAUSE_S: Final = 0.1

Outcomes = dict[TopicPartition, KafkaError | ClientError | None]
"""Partition → the error of its acknowledgements; None if they were accepted."""


class ShareRecord(NamedTuple):
    """A record as it was delivered. `timestamp` is in ms since 1970; -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    topic: str
    partition: int
    timestamp_type: TimestampType
    """The clock of `timestamp`: the producer's, or the broker's at the time of the append."""
    leader_epoch: int
    delivery_count: int
    """How often the record has been delivered to the group, including this time."""


OnShareRecords = Callable[[Sequence[ShareRecord], int], None]
"""A function that is called with the records that a poll returns, one or more, and the time at
which the poll began (ns since 1970)."""


class _Source(NamedTuple):
    """The broker and the partition that an unacknowledged record came from."""

    broker_id: int
    ids: TopicIdPartition


class ShareConsumer:
    """A share consumer (KIP-932), made by `open_share_consumer`. Only one task at a time may poll.
    After `close`, methods that subscribe, read or acknowledge raise Closed."""

    def __init__(
        self, cluster: Cluster, config: ShareConsumerConfig, nursery: trio.Nursery
    ) -> None:
        self.cluster = cluster
        """Connections and metadata."""
        self.config = config
        self._nursery = nursery
        self._is_explicit = config.share_acknowledgement_mode.lower() == "explicit"
        self._group = ShareGroup(
            cluster, config, on_assigned=self._on_assigned, on_failure=self._fail
        )
        self._fetcher = ShareFetcher(
            cluster,
            config,
            self._group,
            nursery,
            ShareFetcherEvents(
                on_delivery=self._on_delivery,
                on_outcome=self._on_acknowledged,
                on_failure=self._fail,
                want_metadata=self._want_metadata,
            ),
        )
        self._buffer: deque[tuple[ShareRecord, _Source]] = deque()
        self._unacknowledged: dict[tuple[TopicPartition, int], _Source] = {}
        """Records returned by poll that still lack a final acknowledgement."""
        self._renewed: set[tuple[TopicPartition, int]] = set()
        """The unacknowledged records whose locks were renewed: they may stay so over the next
        poll."""
        self._outcomes: Outcomes = {}
        self._failure: Exception | None = None
        self._news = trio.Event()
        self._stale = trio.Event()
        self._closed = False
        self._on_records: OnShareRecords | None = None
        self.on_outcome: (
            Callable[[TopicPartition, Sequence[int], KafkaError | ClientError | None], None] | None
        ) = None
        """A function that is called with a partition, offsets, and the error of their
        acknowledgement (None: accepted), for acknowledgements sent with fetches and by `commit`."""
        cluster.on_metadata.append(self._metadata_changed)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        bootstrap: str | Sequence[str],
        config: Mapping[str, object] | None = None,
        *,
        on_request: OnRequest | None = None,
        on_records: OnShareRecords | None = None,
    ) -> AsyncGenerator[Self]:
        """Open a share consumer of the cluster that `bootstrap` belongs to. The consumer connects
        on first use and is closed when the block ends. `on_request` is called after each request,
        `on_records` with the records that `poll` returns or the loop yields, and the time at which
        the poll began (ns since 1970).

        Raises ConfigError.
        """
        parsed = parse(ShareConsumerConfig, config)
        if not parsed.group_id:
            raise ConfigError("group.id: a share consumer needs a group")
        async with open_cluster(bootstrap, parsed, on_request) as cluster, in_nursery() as nursery:
            consumer = cls(cluster, parsed, nursery)
            consumer._on_records = on_records
            consumer.start()
            async with consumer:
                yield consumer

    def start(self) -> None:
        """Start the background tasks. `open_share_consumer` does this."""
        self._nursery.start_soon(self._group.run)
        self._nursery.start_soon(self._keep_metadata)

    # --- subscription ---

    @property
    def member_id(self) -> str:
        """This member's id in the group."""
        return self._group.member_id

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the coordinator has assigned to this member. Other members may share
        them."""
        return frozenset(self._group.assigned)

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        return frozenset(self._group.topics or ())

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to `topics` instead of earlier ones. Raises ValueError if `topics` is empty."""
        self._check()
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise ValueError("subscribe to at least one topic, or unsubscribe")
        self._group.subscribe(names)

    async def unsubscribe(self) -> None:
        """Leave the group. Records that are not acknowledged go to other members."""
        self._check()
        await self._group.leave()

    # --- records ---

    async def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[ShareRecord]:
        """Return the next records, at most `records_max` (default: `max.poll.records`). Waits up to
        `timeout_ms` for the first ones.

        Returns an empty list after the timeout. The implicit mode first accepts the records of the
        previous poll; the explicit mode raises ValueError unless each of them is acknowledged.
        Raises KafkaError or ClientError for errors that cannot be retried.
        """
        limit = self.config.max_poll_records if records_max is None else records_max
        deadline = trio.current_time() + (float("inf") if timeout_ms is None else timeout_ms / 1000)
        start_ns = 0 if self._on_records is None else time.time_ns()
        await self._fill(limit, deadline)
        return self._take(limit, start_ns)

    async def _fill(self, limit: int, deadline: float) -> None:
        """Settle earlier records and wait for new ones: the first part of a poll."""
        self._check()
        self._settle()
        await trio.lowlevel.checkpoint()
        try:
            while True:
                self._news = trio.Event()
                self._raise_failure()
                if self._buffer or trio.current_time() >= deadline:
                    return
                self._fetcher.want(limit)
                with trio.move_on_at(deadline):
                    await self._news.wait()
        finally:
            self._fetcher.want(0)

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Yield records one by one, forever. After at most `max.poll.records` of them, the records
        yielded so far are settled as by a poll. Records fetched but not yielded stay buffered: a
        later poll returns them, or the end of the block releases them."""
        limit = self.config.max_poll_records
        while True:
            start_ns = 0 if self._on_records is None else time.time_ns()
            await self._fill(limit, float("inf"))
            for _ in range(limit):
                if self._closed or not self._buffer:
                    break
                (record,) = self._take(1, start_ns)
                yield record

    def put_back(self, records: Sequence[ShareRecord]) -> None:
        """Take back the newest records of the last poll, which the program has not processed. The
        next poll returns them again, or the end of the block releases them."""
        for record in reversed(records):
            place = TopicPartition(record.topic, record.partition), record.offset
            if (source := self._unacknowledged.pop(place, None)) is not None:
                self._buffer.appendleft((record, source))

    def _take(self, limit: int, start_ns: int) -> list[ShareRecord]:
        taken: list[ShareRecord] = []
        while self._buffer and len(taken) < limit:
            record, source = self._buffer.popleft()
            taken.append(record)
            self._unacknowledged[TopicPartition(record.topic, record.partition), record.offset] = (
                source
            )
        if self._on_records is not None and taken:
            self._on_records(taken, start_ns)
        return taken

    def _settle(self) -> None:
        """Accept the records of the previous poll or, in the explicit mode, raise ValueError if an
        acknowledgement is missing."""
        open_records = self._unacknowledged.keys() - self._renewed
        if not open_records:
            return
        if self._is_explicit:
            raise ValueError(
                f"{len(open_records)} records of the last poll are not acknowledged: acknowledge "
                "each before the next poll"
            )
        for partition, offset in list(self._unacknowledged):
            self._acknowledge(partition, offset, AcknowledgeType.ACCEPT)

    # --- acknowledgements ---

    def acknowledge(
        self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge a record that a poll has returned: ACCEPT, RELEASE (deliver it again), REJECT
        (never again), or RENEW (still being processed: its lock starts again, and it must be
        acknowledged later).

        Raises ValueError for GAP, and for a record that is not held or has its final
        acknowledgement.
        """
        self.acknowledge_offset(TopicPartition(record.topic, record.partition), record.offset, kind)

    def acknowledge_offset(
        self, partition: TopicPartition, offset: int, kind: AcknowledgeType
    ) -> None:
        """Acknowledge a record by partition and offset, as `acknowledge` does."""
        self._check()
        if kind is AcknowledgeType.GAP:
            raise ValueError(
                "GAP is only for offsets without a record, and the consumer "
                "acknowledges these itself"
            )
        partition = TopicPartition(*partition)
        if (partition, offset) not in self._unacknowledged:
            raise ValueError(
                f"offset {offset} of {partition.shown} is not held, or was acknowledged"
            )
        self._acknowledge(partition, offset, kind)

    def _acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        source = self._unacknowledged[partition, offset]
        if kind is AcknowledgeType.RENEW:
            self._renewed.add((partition, offset))
        else:
            del self._unacknowledged[partition, offset]
            self._renewed.discard((partition, offset))
        self._fetcher.acknowledge(source.broker_id, partition, source.ids, {offset: kind})

    async def commit(self) -> Outcomes:
        """Send all acknowledgements; the implicit mode first accepts the records of the last poll.
        Returns the outcome for each partition: the error of its acknowledgements since the last
        commit, or None. Waits at most `default.api.timeout.ms`, then raises trio.TooSlowError."""
        self._check()
        if not self._is_explicit:
            self._settle()
        with trio.fail_after(self.config.default_api_timeout_ms / 1000):
            while not self._fetcher.is_idle:
                self._news = trio.Event()
                self._fetcher.flush()
                await self._news.wait()
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes

    def _on_acknowledged(
        self,
        partition: TopicPartition,
        acknowledgements: Acknowledgements,
        error: KafkaError | ClientError | None,
    ) -> None:
        offsets = [
            offset for offset, kind in acknowledgements.items() if kind is not AcknowledgeType.GAP
        ]
        if offsets:
            self._outcomes[partition] = self._outcomes.get(partition) or error
            if self.on_outcome is not None:
                self.on_outcome(partition, offsets, error)
        if error is not None:
            for offset, kind in acknowledgements.items():
                if kind is AcknowledgeType.RENEW:
                    # The lock may have expired: another member has the record, or will get it.
                    self._unacknowledged.pop((partition, offset), None)
                    self._renewed.discard((partition, offset))
        self._news.set()

    # --- fetched records ---

    def _on_delivery(self, delivery: Delivery) -> None:
        """Decode the records of a fetch. Acquired offsets without a record are acknowledged as
        gaps."""
        partition = delivery.partition
        ids = self._group.assigned.get(partition)
        if ids is None:
            return  # revoked meanwhile
        source = _Source(delivery.broker_id, ids)
        counts = {
            offset: count
            for first, last, count in delivery.acquired
            for offset in range(first, last + 1)
        }
        try:
            for position, header in iter_headers(delivery.data):
                if not header.is_control:
                    data = delivery.data[position : position + header.size]
                    self._take_batch(data, header, counts, partition, source)
        except (KafkaError, ProtocolError) as e:
            self._fail(e)
        if counts:
            gaps = dict.fromkeys(counts, AcknowledgeType.GAP)
            self._fetcher.acknowledge(source.broker_id, partition, ids, gaps)
        if self._buffer:
            # The waiting poll has its records. More records would be locked while they wait.
            self._fetcher.wanted = 0
        self._news.set()

    def _take_batch(
        self,
        data: memoryview,
        header: BatchHeader,
        counts: dict[int, int],
        partition: TopicPartition,
        source: _Source,
    ) -> None:
        """Buffer the acquired records of one batch and remove their offsets from `counts`. A
        corrupt batch is rejected."""
        wanted = [o for o in range(header.base_offset, header.next_offset) if o in counts]
        if not wanted:
            return
        try:
            if self.config.check_crcs:
                check_crc(data, 0, header)
            found = list(records(data, header))
        except (KafkaError, ProtocolError) as e:
            rejected = dict.fromkeys(wanted, AcknowledgeType.REJECT)
            self._fetcher.acknowledge(source.broker_id, partition, source.ids, rejected)
            for offset in wanted:
                del counts[offset]
            self._fail(e)
            return
        for record in found:
            count = counts.pop(record.offset, None)
            if count is not None:
                taken = ShareRecord(
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    record.headers,
                    partition.topic,
                    partition.partition,
                    header.timestamp_type,
                    header.leader_epoch,
                    count,
                )
                self._buffer.append((taken, source))

    # --- internals ---

    def _check(self) -> None:
        if self._closed:
            raise Closed("this consumer is closed")

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        self._news.set()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _on_assigned(self) -> None:
        if any(self.cluster.metadata.leader(p)[0] < 0 for p in self._group.assigned):
            self._want_metadata()
        self._fetcher.follow_leaders()

    def _want_metadata(self) -> None:
        self._stale.set()

    def _metadata_changed(self) -> None:
        self._group.metadata_changed()
        self._fetcher.follow_leaders()

    async def _keep_metadata(self) -> None:
        """Keep the leaders of the assigned partitions known: refresh the metadata if it is missing,
        wrong or old."""
        while True:
            self._stale = trio.Event()
            with trio.move_on_after(self.config.metadata_max_age_ms / 1000):
                await self._stale.wait()
            topics = {partition.topic for partition in self._group.assigned}
            if topics:
                try:
                    await self.cluster.refresh(sorted(topics))
                except (KafkaError, ClientError, ProtocolError):
                    self._stale.set()
                if any(self.cluster.metadata.leader(p)[0] < 0 for p in self._group.assigned):
                    self._stale.set()
            await trio.sleep(_METADATA_PAUSE_S)

    # --- closing ---

    async def close(self, *, accept: bool = True) -> None:
        """Send pending acknowledgements and leave the group. In the implicit mode, `accept` also
        accepts the records that the last poll returned. Records that are still held go back to the
        group. Takes a few seconds at most."""
        if self._closed:
            return
        if accept and not self._is_explicit:
            for partition, offset in list(self._unacknowledged):
                self._acknowledge(partition, offset, AcknowledgeType.ACCEPT)
        self._closed = True
        with trio.move_on_after(_CLOSE_MS / 1000, shield=True):
            await self._fetcher.close()
            await self._group.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(accept=kind is None)


open_share_consumer = ShareConsumer.open
