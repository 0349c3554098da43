"""Reads the current end offsets of a stream's topics, and waits for new records.

Spark asks an idle source for its latest offset a hundred times a second. So each answer waits like
a consumer: a Fetch request from the end of each partition waits at its leader for a record, and the
response also has the new end. So an idle stream sends one request to each leader every three
seconds, and sees new records at once.

A broker answers the requests of a connection in order. So these requests have their own
connections. If another leader answers first, a request stays pending, and its response is used when
it arrives.
"""

from collections.abc import Mapping
from typing import Any, Final

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import ZERO_UUID, TopicPartition, Uuid
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.net.client.admin import Admin
from pk.net.client.cluster import Cluster
from pk.net.client.config import AdminConfig, parse
from pk.net.client.errors import ClientError
from pk.net.client.results import LATEST
from pk.spark.read.options import SourceOptions
from pk.spark.read.plan import listed

WAIT_MS: Final = 1_500
"""The longest time in milliseconds that Spark waits for the answer that nothing is new."""

POLL_MS: Final = 3_000
"""The time in milliseconds that a request waits at its leader for a record. It is longer than
Spark's wait."""

DISCOVERY_MS: Final = 5_000
"""The time in milliseconds after which an idle stream looks for new partitions and topics."""

_FETCH: Final = 1
_PURPOSE: Final = "arrivals"


class Arrivals:
    """The end offsets of the partitions that a stream reads. Runs in the process's loop
    (pk.spark.connections)."""

    def __init__(self, cluster: Cluster, nursery: trio.Nursery, options: SourceOptions) -> None:
        self.ends: dict[TopicPartition, int] = {}
        """The end offset of each partition for a reader with the stream's isolation level."""

        self.ids: dict[str, Uuid] = {}
        """The id of each topic; zero if the broker is too old to send it."""

        self._cluster = cluster
        self._nursery = nursery
        self._options = options
        self._isolation = options.read.isolation
        self._admin = Admin(cluster, parse(AdminConfig, options.read.admin_config))
        self._waiting: set[int] = set()
        self._discovered_at = -float("inf")
        self._stale = True
        self._news = trio.Event()

    @property
    def admin(self) -> Admin:
        return self._admin

    async def look(self) -> None:
        """Request the partitions and their end offsets from the brokers. Raises KafkaError,
        ClientError."""
        found = await self._discover()
        answers = await self._admin.list_offsets(
            dict.fromkeys(found, LATEST), isolation=self._isolation
        )
        self.ends = {tp: listed(answers, tp).offset for tp in found}
        self.ids = {tp.topic: topic_id for tp, topic_id in found.items()}
        self._stale = False

    async def _discover(self) -> dict[TopicPartition, Uuid]:
        """The existing partitions that the stream reads, with the ids of their topics. Missing
        topics are skipped."""
        options, cluster = self._options, self._cluster
        names = set(options.topics) or {tp.topic for tp in options.assigned}

        async def ask() -> None:
            await cluster.refresh(None if options.pattern is not None else sorted(names))
            for name in names:
                code = cluster.metadata.topics[name].error_code
                if code and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise KafkaError(code, f"topic {name!r}")

        await cluster.retry(
            ask, timeout_ms=self._admin.config.default_api_timeout_ms, what="Metadata"
        )
        topics = cluster.metadata.topics
        if options.pattern is not None:
            names = {name for name in topics if options.pattern.fullmatch(name)}
        found = {
            TopicPartition(name, partition): topics[name].topic_id
            for name in sorted(names)
            if not topics[name].error_code
            for partition in range(len(topics[name].partitions))
        }
        self._discovered_at = trio.current_time()
        if not options.assigned:
            return found
        return {tp: found[tp] for tp in options.assigned if tp in found}

    async def wait(self) -> None:
        """Wait until something is new, at most about WAIT_MS. Raises KafkaError, ClientError."""
        overdue = trio.current_time() - self._discovered_at >= DISCOVERY_MS / 1000
        if self._stale or overdue or not self.ends:
            await self.look()
        self._news = trio.Event()
        for node_id, partitions in self._by_leader().items():
            if node_id not in self._waiting:
                self._waiting.add(node_id)
                self._nursery.start_soon(self._fetch, node_id, partitions)
        with trio.move_on_after(WAIT_MS / 1000):
            if self._waiting:
                await self._news.wait()
            else:
                await trio.sleep(WAIT_MS / 1000)

    def _by_leader(self) -> dict[int, list[TopicPartition]]:
        found: dict[int, list[TopicPartition]] = {}
        for tp in self.ends:
            node_id, _ = self._cluster.metadata.leader(tp)
            if node_id >= 0:
                found.setdefault(node_id, []).append(tp)
            else:
                self._stale = True
        return found

    async def _fetch(self, node_id: int, partitions: list[TopicPartition]) -> None:
        before = dict(self.ends)
        try:
            self._take(await self._ask(node_id, partitions))
        except (KafkaError, ClientError, ProtocolError):
            self._stale = True
            await trio.sleep(self._cluster.config.retry_backoff_ms / 1000)
        finally:
            self._waiting.discard(node_id)
            # If nothing is new, wait for all leaders, so that the first of them does not end the
            # wait.
            if self._stale or self.ends != before or not self._waiting:
                self._news.set()

    async def _ask(self, node_id: int, partitions: list[TopicPartition]) -> Any:
        topics: dict[str, FetchTopic] = {}
        metadata = self._cluster.metadata
        for tp in partitions:
            topic = topics.setdefault(
                tp.topic, FetchTopic(topic=tp.topic, topic_id=self.ids[tp.topic])
            )
            asked = FetchPartition(
                partition=tp.partition,
                current_leader_epoch=metadata.leader(tp)[1],
                fetch_offset=self.ends[tp],
                partition_max_bytes=1,
            )
            topic.partitions.append(asked)
        connection = await self._cluster.connection(node_id, _PURPOSE)
        by_name = any(topic.topic_id == ZERO_UUID for topic in topics.values())
        version = connection.version_of(_FETCH, low=4, high=12 if by_name else 32_767)
        request = FetchRequest(
            max_wait_ms=POLL_MS,
            min_bytes=1,
            max_bytes=1,
            isolation_level=int(self._isolation),
            topics=list(topics.values()),
        )
        if version >= 7:
            request.session_epoch = -1  # no fetch session, since each request is different
        return await connection.request(request, version=version)

    def _take(self, response: Any) -> None:
        if response.error_code:
            raise KafkaError(response.error_code, "Fetch")
        names: Mapping[Uuid, str] = self._cluster.metadata.names
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                if data.error_code or tp not in self.ends:
                    self._stale = True
                    continue
                end = data.last_stable_offset if self._isolation else data.high_watermark
                self.ends[tp] = max(self.ends[tp], end)
