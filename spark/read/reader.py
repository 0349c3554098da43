"""Reads a range of offsets from its partition's leader as Arrow batches, in a Spark task.

Spark reads from a plain generator, and while it converts the generator's items to rows, the
generator does not run. So fetching runs in the process's own loop (pk.spark.connections), a few
responses ahead, and the generator only decodes. Both spend most of their time without the
interpreter's lock (in recv; in numpy, Arrow and the decompressors), so they run in parallel.

The end of a range is recognized by the offsets of batches, not by counting records: compaction,
control batches and aborted transactions leave gaps.
"""

import queue
from collections.abc import Awaitable, Callable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.record.batch import BatchHeader, check_crc
from pk.core.record.columns import WantedRows, to_arrow
from pk.core.values import ZERO_UUID, uuid_text
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import AdminConfig, ConsumerConfig, parse
from pk.net.client.connection import Connection
from pk.net.client.errors import ClientError, is_retriable
from pk.net.client.subscription import Chunk
from pk.spark.connections import connections
from pk.spark.errors import DataLost
from pk.spark.read.ranges import OffsetRange
from pk.spark.read.read_options import ReadOptions

ROWS_BYTES: Final = 4 << 20
"""The size in bytes at which records are converted to an Arrow batch."""

_FETCH: Final = 1
_PURPOSE: Final = "fetch"
_AHEAD: Final = 2
_GONE_S: Final = 2.5
"""How long brokers must report that a topic is missing, in seconds: a broker that has just started
may not know the topic yet."""

_KNOWN_MS: Final = 1_000
_SLACK: Final = 1.1
_SLACK_BYTES: Final = 65_536


def read(wanted: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read the records of a range in order, as batches of ROW_SCHEMA (or with headers).

    Raises DataLost if part of the range is missing (unless the options allow that), KafkaError and
    ClientError if brokers and connections fail permanently, CorruptBatch for a wrong CRC. Closing
    the generator stops the fetching.
    """
    config = options.config
    fetching = _Fetching(wanted, options, config)
    try:
        # The floor rises if records are lost during the read; a batch may begin before the floor.
        for floor, batches in groupby(fetching.batches(), key=attrgetter("floor")):
            yield from to_arrow(
                _checked(batches, config.check_crcs),
                WantedRows(wanted.topic, wanted.partition, floor, wanted.end, options.headers),
                chunk_bytes=ROWS_BYTES,
            )
    finally:
        fetching.close()


def _checked(
    batches: "Iterator[_Batch]", check_crcs: bool
) -> Iterator[tuple[memoryview, BatchHeader]]:
    for batch in batches:
        if check_crcs:
            check_crc(batch.data, 0, batch.header)
        yield batch.data, batch.header


class _Batch(NamedTuple):
    """A batch of the range; its records before `floor` are skipped."""

    floor: int
    data: memoryview
    header: BatchHeader


class _Fetching:
    """A job in the process's loop that fetches, and its queue to the generator."""

    def __init__(self, wanted: OffsetRange, options: ReadOptions, config: ConsumerConfig) -> None:
        self._wanted = wanted
        self._options = options
        self._config = config
        self._answers: queue.SimpleQueue[list[_Batch] | None] = queue.SimpleQueue()
        self._room = trio.Semaphore(_AHEAD)
        self._error: Exception | None = None
        self._connections = connections()
        self._job = self._connections.start(self._fetch)

    def batches(self) -> Iterator[_Batch]:
        """The batches of the range as they arrive. Raises the error that ended the fetching."""
        while True:
            batches = self._answers.get()
            if batches is None:
                if self._error is not None:
                    raise self._error
                return
            yield from batches
            self._connections.call_soon(self._room.release)

    def close(self) -> None:
        """Stop the fetching and wait until it has stopped. Idempotent."""
        self._connections.cancel(self._job)

    async def _fetch(self) -> None:
        try:
            cluster = await self._connections.cluster(self._options.bootstrap, self._config)
            await RangeFetch(cluster, self._wanted, self._options, self._config).run(self._deliver)
        except Exception as e:  # noqa: BLE001 (raised again in the task's own thread)
            self._error = e
        finally:
            self._answers.put(None)

    async def _deliver(self, batches: list[_Batch]) -> None:
        await self._room.acquire()
        self._answers.put(batches)


class RangeFetch:
    """A fetcher of one range, which keeps the position and finds the leader."""

    def __init__(
        self, cluster: Cluster, wanted: OffsetRange, options: ReadOptions, config: ConsumerConfig
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._options = options
        self._config = config
        self._position = self._floor = wanted.begin
        self._isolation = options.isolation
        self._replica = -1
        self._bytes_an_offset = 0.0
        self._gone_at: float | None = None

    async def run(self, deliver: Callable[[list[_Batch]], Awaitable[None]]) -> None:
        """Fetch the range, and pass the batches of each response to `deliver`.

        Repeats the request after an empty response until `wait_ms` have passed without progress. A
        topic that is deleted during the read is considered lost after `_GONE_S`.
        """
        config = self._config
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        moved_at = trio.current_time()
        while self._position < self._wanted.end:
            before, failure = self._position, None
            try:
                batches = await self._fetch()
            except (KafkaError, ClientError, ProtocolError) as e:
                if not _passing(e):
                    raise
                failure, batches = e, []
            if self._position > before:
                moved_at = trio.current_time()
                backoff.reset()
                if batches:
                    await deliver(batches)
                continue
            if trio.current_time() - moved_at >= self._options.wait_ms / 1000:
                if failure is not None:
                    raise failure
                self._lost(f"no records arrived from offset {self._position} on", self._wanted.end)
                return
            if failure is not None:
                self._replica = -1
                await trio.sleep(backoff.next_ms() / 1000)
                if await self._refresh() and self._is_gone():
                    name = self._wanted.topic
                    self._lost(f"the topic {name} was deleted", self._wanted.end)

    async def _refresh(self) -> bool:
        """Refresh the topic's metadata. Returns whether a broker responded."""
        try:
            await self._cluster.refresh([self._wanted.topic])
        except (KafkaError, ClientError, ProtocolError) as e:
            if not _passing(e):
                raise
            return False
        return True

    def _is_gone(self) -> bool:
        """Whether brokers have reported for `_GONE_S` that the topic does not exist."""
        topic = self._cluster.metadata.topics.get(self._wanted.topic)
        missing = topic is not None and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not missing or self._wanted.topic_id == ZERO_UUID:
            self._gone_at = None
            return False
        if self._gone_at is None:
            self._gone_at = trio.current_time()
        return trio.current_time() - self._gone_at >= _GONE_S

    async def _leader(self) -> tuple[Connection, int]:
        """The connection to the leader, or to the preferred read replica, and the leader epoch to
        send."""
        wanted, cluster = self._wanted, self._cluster
        default_ms = self._config.default_api_timeout_ms
        # A topic with a known id existed when the read was planned. If it was deleted, `run` finds
        # out.
        timeout_ms = _KNOWN_MS if wanted.topic_id != ZERO_UUID else default_ms
        info = await cluster.topic(wanted.topic, timeout_ms=timeout_ms)
        if wanted.topic_id not in (ZERO_UUID, info.topic_id):
            # This process's metadata may be older than the plan.
            await cluster.refresh([wanted.topic])
            info = await cluster.topic(wanted.topic, timeout_ms=timeout_ms)
        if wanted.topic_id not in (ZERO_UUID, info.topic_id):
            raise DataLost(
                f"topic {wanted.topic} was deleted and created again: its id is now"
                f" {uuid_text(info.topic_id)}, no longer {uuid_text(wanted.topic_id)}"
            )
        node_id, epoch = cluster.metadata.leader(wanted.topic_partition)
        if node_id < 0:
            what = f"{wanted.topic_partition} has no leader"
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, what)
        node_id = self._replica if self._replica >= 0 else node_id
        return await cluster.connection(node_id, _PURPOSE), epoch

    async def _fetch(self) -> list[_Batch]:
        wanted, config = self._wanted, self._config
        connection, epoch = await self._leader()
        topic_id = self._cluster.metadata.topic_id(wanted.topic)
        high = 12 if topic_id == ZERO_UUID else 32767
        version = connection.version_of(_FETCH, low=4, high=high)
        bytes_max = self._bytes_max()
        partition = FetchPartition(
            partition=wanted.partition,
            current_leader_epoch=epoch,
            fetch_offset=self._position,
            partition_max_bytes=bytes_max,
        )
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=max(bytes_max, config.fetch_max_bytes),
            isolation_level=int(self._isolation),
            topics=[FetchTopic(topic=wanted.topic, topic_id=topic_id, partitions=[partition])],
        )
        if version >= 7:
            request.session_epoch = -1  # no fetch session, since each request is different
        if version >= 11:
            request.rack_id = config.client_rack
        response = await connection.request(request, version=version)
        if response.error_code:
            raise KafkaError(response.error_code, f"Fetch of {wanted.topic_partition}")
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    return self._take(data)
                if self._replica >= 0:
                    self._replica = -1  # the leader may have the offset
                else:
                    await self._out_of_range()
        return []

    def _bytes_max(self) -> int:
        """The number of bytes to request: near the end of the range, not more than probably
        remain."""
        limit = self._config.max_partition_fetch_bytes
        if not self._bytes_an_offset:
            return limit
        left = (self._wanted.end - self._position) * self._bytes_an_offset
        return min(limit, int(left * _SLACK) + _SLACK_BYTES)

    def _take(self, data: Any) -> list[_Batch]:
        if data.error_code:
            what = f"Fetch of {self._wanted.topic_partition} from offset {self._position}"
            raise KafkaError(data.error_code, what)
        if data.preferred_read_replica >= 0:
            self._replica = data.preferred_read_replica
        if not data.records:
            return []
        aborted = None
        if self._isolation:
            aborted = [(a.first_offset, a.producer_id) for a in data.aborted_transactions or ()]
        chunk = Chunk(self._wanted.topic_partition, data.records, aborted)
        if not chunk.batches:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                (
                    f"{self._wanted.topic_partition} at {self._position}: no complete batch in the "
                    "response"
                ),
            )
        first = max(chunk.batches[0][1].base_offset, self._position)
        self._bytes_an_offset = len(data.records) / max(chunk.next_offset - first, 1)
        batches: list[_Batch] = []
        while (found := chunk.next_batch(self._position)) is not None:
            header, batch = found
            if header.base_offset >= self._wanted.end:
                break
            batches.append(_Batch(self._floor, batch, header))
        self._position = max(self._position, chunk.next_offset)
        return batches

    async def _out_of_range(self) -> None:
        """Handle an offset that the leader does not have, because of retention or a truncation of
        the log."""
        from pk.net.client.admin import Admin
        from pk.spark.read.plan import whole

        wanted = self._wanted
        admin = Admin(self._cluster, parse(AdminConfig, self._options.admin_config))
        ids = {wanted.topic_partition: wanted.topic_id}
        held = (await whole(admin, ids, self._isolation))[wanted.topic_partition]
        if held.begin > self._position:
            self._lost(f"the partition now begins at {held.begin}", held.begin)
        else:
            self._lost(f"the partition ends at {held.end}", wanted.end)

    def _lost(self, why: str, resume_offset: int) -> None:
        """Raise DataLost, or without `fail_on_data_loss` continue at `resume_offset`."""
        wanted = self._wanted
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{wanted.topic_partition}: offsets from {self._position} to {wanted.end} were"
                f" requested, but {why}; failOnDataLoss=false reads the rest"
            )
        self._position = self._floor = min(resume_offset, wanted.end)


def _passing(error: Exception) -> bool:
    if isinstance(error, KafkaError):
        return is_retriable(error)
    return isinstance(error, ClientError)
