"""Fetches ahead of the consumer: one task per broker, each with one Fetch in flight, in incremental
sessions (KIP-227).

The task sends the next Fetch once the buffer of every partition that it reads has room again
(`max.partition.fetch.bytes`). Fetching some partitions while the buffer of another is full would
starve that partition: once drained, it would have to wait for the long poll of the others.
Partitions whose position is being looked up are left out, since the lookup may take as long as
their leader is unavailable.

In a session, requests list only changes: partitions with a new offset, and partitions to forget.
Responses list only partitions with new data. The response for a partition that was seeked meanwhile
(`PartitionState.version`), or revoked and assigned again (another `PartitionState`), is dropped.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import ZERO_UUID, TopicPartition, Uuid
from pk.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from pk.net.client.cluster import Cluster
from pk.net.client.config import ConsumerConfig
from pk.net.client.connection import Connection
from pk.net.client.errors import ClientError, is_retriable
from pk.net.client.subscription import Chunk, PartitionState

FETCH: Final = 1
_PURPOSE: Final = "fetch"
_FINAL_EPOCH: Final = -1

_MOVED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)

Asked = dict[TopicPartition, tuple[PartitionState, int, int]]
"""Partition → (its state, the version of the state, the offset) in a Fetch request."""


class Session:
    """The broker's fetch session, as the client knows it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start a new session with the next Fetch."""
        self.session_id = 0
        self.epoch = 0
        self.partitions: dict[TopicPartition, tuple[Uuid, FetchPartition]] = {}

    def request(
        self, wanted: dict[TopicPartition, tuple[Uuid, FetchPartition]], *, by_id: bool
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return the topics to list and the topics to forget, so that the broker's session becomes
        `wanted`. `by_id` tells whether the session uses topic ids. In a session that uses names, a
        recreated topic is the same topic, and forgetting the old one would remove it."""
        if self.epoch == 0:
            self.partitions = dict(wanted)
            return _topics(wanted), []
        gone: dict[tuple[str, Uuid], list[int]] = {}
        for partition, (topic_id, _) in list(self.partitions.items()):
            if partition not in wanted or (by_id and wanted[partition][0] != topic_id):
                gone.setdefault((partition.topic, topic_id), []).append(partition.partition)
                del self.partitions[partition]
        news = {p: w for p, w in wanted.items() if self.partitions.get(p) != w}
        self.partitions |= news
        forgotten = [
            ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in gone.items()
        ]
        return _topics(news), forgotten

    def answered(self, session_id: int) -> None:
        """Advance to the next epoch. Session id 0 means that the broker has no session."""
        if session_id == 0:
            self.reset()
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == 0x7FFFFFFF else self.epoch + 1


def _topics(partitions: dict[TopicPartition, tuple[Uuid, FetchPartition]]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for partition, (topic_id, data) in partitions.items():
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=topic_id)
        topic.partitions.append(data)
    return list(topics.values())


class FetcherEvents(NamedTuple):
    """The callbacks of a consumer's fetcher."""

    on_news: Callable[[], None]
    """Called when a response was buffered: the partitions may have records."""
    on_failure: Callable[[Exception], None]
    """Called with an error that a poll must raise."""
    on_out_of_range: Callable[[PartitionState], None]
    """Called for a partition whose position is not in the leader's log."""
    want_metadata: Callable[[], None]
    """Called if a leader cannot be reached or has changed."""


class Fetcher:
    """The fetching of a consumer. `states` is the consumer's own dict of its partitions."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        states: dict[TopicPartition, PartitionState],
        nursery: trio.Nursery,
        events: FetcherEvents,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.states = states
        self.isolation = 1 if config.isolation_level == "read_committed" else 0
        self.events = events
        self._nursery = nursery
        self._brokers: dict[int, BrokerFetcher] = {}
        self.fetches = 0
        """The number of Fetch requests sent."""

    def wake(self) -> None:
        """Wake every broker's task."""
        for broker in self._brokers.values():
            broker.wake()

    def follow_leaders(self) -> None:
        """Start tasks for new leaders, and wake all tasks, after a change of the partitions or
        their leaders."""
        self._follow_leaders(trio.current_time())

    def _follow_leaders(self, now: float) -> None:
        for state in self.states.values():
            node_id = self.node_of(state, now)
            if node_id >= 0 and node_id not in self._brokers:
                broker = self._brokers[node_id] = BrokerFetcher(self, node_id)
                self._nursery.start_soon(broker.run)
        self.wake()

    def node_of(self, state: PartitionState, now: float) -> int:
        """Return the node to fetch a partition from: the preferred replica that the leader named
        (KIP-392), else the leader; -1 if unknown."""
        if state.preferred_replica >= 0:
            if not self._is_over(state, now):
                return state.preferred_replica
            self._end_preferences(now)
        return self.cluster.metadata.leader(state.partition)[0]

    def _is_over(self, state: PartitionState, now: float) -> bool:
        """Return whether the preferred replica has expired or is no longer a broker of the
        cluster."""
        known = state.preferred_replica in self.cluster.metadata.brokers
        return not known or now >= state.preferred_until

    def _end_preferences(self, now: float) -> None:
        """Switch partitions whose preferred replica has expired to their leaders, whose tasks may
        be asleep or not started yet. Handles all partitions at once: many expire together, and each
        `_follow_leaders` scans all partitions."""
        for state in self.states.values():
            if state.preferred_replica >= 0 and self._is_over(state, now):
                state.preferred_replica = -1
        self._follow_leaders(now)

    async def close(self) -> None:
        """End the sessions at the brokers, as far as possible without waiting."""
        for broker in self._brokers.values():
            broker.end_session()
        await trio.lowlevel.checkpoint()


class BrokerFetcher:
    """Fetches its partitions from one broker."""

    def __init__(self, fetcher: Fetcher, node_id: int) -> None:
        self.fetcher = fetcher
        self.config = fetcher.config
        self.node_id = node_id
        self.session = Session()
        self._by_id = False
        self._wake = trio.Event()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        fetcher = self.fetcher
        while True:
            self._wake = trio.Event()
            states, due = self._fetchable(trio.current_time())
            if not states:
                with trio.move_on_at(due):
                    await self._wake.wait()
                continue
            try:
                connection = await fetcher.cluster.connection(self.node_id, _PURPOSE)
                await self._fetch(connection, states)
            except (ClientError, ProtocolError, KafkaError) as e:
                self.session.reset()
                for state in states:
                    state.preferred_replica = -1
                fetcher.events.want_metadata()
                if isinstance(e, KafkaError) and not is_retriable(e):
                    fetcher.events.on_failure(e)
                await trio.sleep(self.config.retry_backoff_ms / 1000)

    def _fetchable(self, now: float) -> tuple[list[PartitionState], float]:
        """Return the partitions to fetch from this broker, and when to check again if there are
        none."""
        fetcher = self.fetcher
        states: list[PartitionState] = []
        due = float("inf")
        metadata = fetcher.cluster.metadata
        for state in fetcher.states.values():
            if state.paused or state.revoking or fetcher.node_of(state, now) != self.node_id:
                continue
            if state.buffered_bytes >= self.config.max_partition_fetch_bytes:
                return [], float("inf")
            if not state.has_position:
                continue
            if state.position_epoch >= 0 and (
                metadata.leader(state.partition)[1] > state.leader_epoch
            ):
                continue  # another leader: the position is being validated against its log
            if state.not_before > now:
                due = min(due, state.not_before)
                continue
            states.append(state)
        return states, due

    async def _fetch(self, connection: Connection, states: list[PartitionState]) -> None:
        fetcher, config = self.fetcher, self.config
        metadata = fetcher.cluster.metadata
        version = connection.version_of(FETCH, low=4)
        ids = {state.partition.topic: metadata.topic_id(state.partition.topic) for state in states}
        if version >= 13 and ZERO_UUID in ids.values():
            version = connection.version_of(FETCH, low=4, high=12)
        if (version >= 13) != self._by_id:
            self.session.reset()
            self._by_id = version >= 13
        asked: Asked = {}
        wanted: dict[TopicPartition, tuple[Uuid, FetchPartition]] = {}
        for state in states:
            partition = state.partition
            leader_epoch = metadata.leader(partition)[1]
            state.leader_epoch = leader_epoch
            asked[partition] = (state, state.version, state.fetch_offset)
            data = FetchPartition(
                partition=partition.partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=state.fetch_offset,
                partition_max_bytes=config.max_partition_fetch_bytes,
            )
            wanted[partition] = (ids[partition.topic], data)
        topics, forgotten = self.session.request(wanted, by_id=self._by_id)
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=fetcher.isolation,
            topics=topics,
        )
        if version >= 7:
            request.session_id = self.session.session_id
            request.session_epoch = self.session.epoch
            request.forgotten_topics_data = forgotten
        if version >= 11:
            request.rack_id = config.client_rack
        fetcher.fetches += 1
        response = await connection.request(request, version=version)
        self._take(response, asked, version)

    def _take(self, response: Any, asked: Asked, version: int) -> None:
        fetcher = self.fetcher
        if response.error_code:
            self.session.reset()
            error = KafkaError(response.error_code, f"Fetch from broker {self.node_id}")
            if not is_retriable(error):
                raise error
            return
        if version >= 7:
            self.session.answered(response.session_id)
        fetcher.cluster.metadata.note_endpoints(response.node_endpoints)
        names = fetcher.cluster.metadata.names
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                state = fetcher.states.get(partition)
                if state is None or partition not in asked:
                    continue
                of, state_version, offset = asked[partition]
                if of is state and (state_version, offset) == (state.version, state.fetch_offset):
                    self._take_partition(state, data)
        fetcher.events.on_news()

    def _take_partition(self, state: PartitionState, data: Any) -> None:
        fetcher = self.fetcher
        code = data.error_code
        if code:
            self._failed(state, data)
            return
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until = trio.current_time() + self.config.metadata_max_age_ms / 1000
            fetcher.follow_leaders()
        if not data.records:
            return
        aborted = None
        if fetcher.isolation:
            aborted = [(a.first_offset, a.producer_id) for a in data.aborted_transactions or ()]
        try:
            chunk = Chunk(state.partition, data.records, aborted)
            if not chunk.batches:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{state.partition} at {state.fetch_offset}: no complete batch in the response",
                )
        except KafkaError as e:
            state.not_before = trio.current_time() + self.config.retry_backoff_ms / 1000
            fetcher.events.on_failure(KafkaError(e.code, f"{state.partition}: {e.message}"))
            return
        state.add(chunk)

    def _failed(self, state: PartitionState, data: Any) -> None:
        fetcher, code = self.fetcher, data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.preferred_replica >= 0:
                state.preferred_replica = -1  # the leader may have the offset
            else:
                fetcher.events.on_out_of_range(state)
            fetcher.follow_leaders()
            return
        state.preferred_replica = -1
        if code in _MOVED:
            leader = data.current_leader
            moved = fetcher.cluster.metadata.note_leader(
                state.partition, leader.leader_id, leader.leader_epoch
            )
            if moved:
                fetcher.cluster.metadata_changed()
            else:
                state.not_before = trio.current_time() + self.config.retry_backoff_ms / 1000
            fetcher.events.want_metadata()
            return
        state.not_before = trio.current_time() + self.config.retry_backoff_max_ms / 1000
        fetcher.follow_leaders()  # wakes the leader's task
        fetcher.events.on_failure(KafkaError(code, str(state.partition)))

    def end_session(self) -> None:
        """End the session at the broker, if there is a connection for it."""
        connection = self.fetcher.cluster.ready_connection(self.node_id, _PURPOSE)
        if connection is None or not self.session.session_id:
            return
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=self.session.session_id,
            session_epoch=_FINAL_EPOCH,
        )
        try:
            connection.submit(request, connection.version_of(FETCH, low=7))
        except (ClientError, KafkaError, ProtocolError):
            return  # the broker will drop the session by itself
