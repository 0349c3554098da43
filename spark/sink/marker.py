"""The marker of the last batch that a query published: a record in a compacted topic, keyed by the
query's id.

It is written in the transaction that publishes the batch, so neither is ever visible without the
other. A committed offset of a group could serve as a marker too, but brokers delete the offsets of
a group without members after a week.

If executors publish a batch, each of its files has a marker too, written in the file's own
transaction (pk.spark.sink.publish_files). The marker of the batch deletes them.

The topic grows by one record for each batch until it is compacted, so it is read from its end,
where a running query finds its marker. The marker must not be missed. Other queries have
transactions in the same partition, and a read_committed reader stops before the first open one; so
it waits until every transaction that was open when it began has ended.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import records
from pk.core.record.build import build_batch
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.cluster import Cluster
from pk.net.client.config import AdminConfig, parse
from pk.net.client.partitioner import partition_for_key
from pk.net.client.results import EARLIEST, LATEST, IsolationLevel, NewTopic
from pk.spark.errors import DataLost, SparkError
from pk.spark.read.plan import listed
from pk.spark.read.ranges import OffsetRange
from pk.spark.read.read_options import ReadOptions
from pk.spark.read.reader import RangeFetch
from pk.spark.sink.options import SinkOptions

TOPIC: Final = "__pk_spark_commits"
PARTITIONS: Final = 16

_CONFIGS: Final[dict[str, str | None]] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "segment.ms": str(24 * 3600 * 1000),
}
_REPLICAS: Final = 3
_TAIL: Final = 1_000
_DELETES: Final = 1_000
_WAIT_MS: Final = 120_000


class MarkerUnreadable(SparkError):
    """It is unknown whether a batch was published."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The last batch that a query published."""

    batch_id: int
    records: int

    def encode(self, query_id: str, now_ms: int) -> bytearray:
        """A record batch with the marker."""
        value = json.dumps({"batch": self.batch_id, "records": self.records}).encode()
        return build_batch([(now_ms, query_id.encode(), value, ())])


def file_key(query_id: str, name: str) -> bytes:
    """The key of a file's marker."""
    return f"{query_id}\n{name}".encode()


def encode_file(query_id: str, name: str, records: int, now_ms: int) -> bytearray:
    """A record batch with the marker of a file."""
    value = json.dumps({"records": records}).encode()
    return build_batch([(now_ms, file_key(query_id, name), value, ())])


def encode_deletes(query_id: str, names: Sequence[str], now_ms: int) -> Iterator[bytearray]:
    """Record batches that delete the markers of files."""
    for begin in range(0, len(names), _DELETES):
        part = names[begin : begin + _DELETES]
        yield build_batch([(now_ms, file_key(query_id, name), None, ()) for name in part])


class Markers:
    """The markers of one query, and the partition that contains them."""

    def __init__(self, cluster: Cluster, options: SinkOptions, query_id: str) -> None:
        self._cluster = cluster
        self._options = options
        self._admin = Admin(cluster, parse(AdminConfig, options.admin_config))
        self._query_id = query_id

    async def partition(self) -> TopicPartition:
        """The partition of the query's markers. Creates the topic if it is missing. Raises
        KafkaError, ClientError."""
        await self._cluster.refresh([TOPIC])
        if self._cluster.metadata.topics[TOPIC].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            try:
                await self._create()
            except KafkaError as e:
                if e.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    what = f"the topic {TOPIC}, which marks published batches, cannot be created"
                    raise KafkaError(e.code, f"{what}: {e.message}") from e
        timeout_ms = self._admin.config.default_api_timeout_ms
        count = len((await self._cluster.topic(TOPIC, timeout_ms=timeout_ms)).partitions)
        return TopicPartition(TOPIC, partition_for_key(self._query_id.encode(), count))

    async def _create(self) -> None:
        """Create the topic with three replicas, as Kafka's internal topics have, but not more than
        there are brokers; or with the cluster's default if that is more. Raises KafkaError,
        ClientError."""
        new = NewTopic(TOPIC, PARTITIONS, configs=_CONFIGS)
        brokers = self._cluster.metadata.brokers
        tried = await self._admin.create_topics([new], validate_only=True)
        factor = max(tried.value(TOPIC).replication_factor, min(_REPLICAS, len(brokers)))
        made = await self._admin.create_topics([replace(new, replication_factor=factor)])
        made.value(TOPIC)

    async def last(self, partition: TopicPartition) -> Marker | None:
        """The query's last marker; None before its first batch. Raises MarkerUnreadable,
        KafkaError, ClientError."""
        begin, end = await self.bounds(partition, IsolationLevel.READ_UNCOMMITTED)
        stop, length = end, _TAIL
        while stop > begin:
            start = max(begin, stop - length)
            found = await self._last_between(partition, start, stop)
            if found is not None:
                return found
            stop, length = start, length * 4
        return None

    async def files(self, tp: TopicPartition, start: int) -> tuple[set[str], int]:
        """The names of the files that have a marker at or after offset `start`, and the last batch
        that has one there; -1 if none has. Raises MarkerUnreadable, KafkaError, ClientError."""
        begin, end = await self.bounds(tp, IsolationLevel.READ_UNCOMMITTED)
        if not begin <= start <= end:
            raise MarkerUnreadable(
                f"{tp} had markers of published files from offset {start} on, and has the offsets"
                f" from {begin} to {end} now"
            )
        key, prefix = self._query_id.encode(), file_key(self._query_id, "")
        found = await self.read(
            tp, start, end, lambda other: other == key or other.startswith(prefix)
        )
        names = {name[len(prefix) :].decode() for name, _ in found if name != key}
        batches = [int(json.loads(value)["batch"]) for name, value in found if name == key]
        return names, max(batches, default=-1)

    async def _last_between(self, tp: TopicPartition, start: int, stop: int) -> Marker | None:
        key = self._query_id.encode()
        found = await self.read(tp, start, stop, lambda other: other == key)
        if not found:
            return None
        value = json.loads(found[-1][1])
        return Marker(int(value["batch"]), int(value["records"]))

    async def bounds(self, tp: TopicPartition, isolation: IsolationLevel) -> tuple[int, int]:
        """The start and the end offset of the partition for a reader. Raises KafkaError,
        ClientError."""
        begin, end = [
            listed(await self._admin.list_offsets({tp: at}, isolation=isolation), tp).offset
            for at in (EARLIEST, LATEST)
        ]
        return begin, end

    async def read(
        self, tp: TopicPartition, start: int, stop: int, wanted: Callable[[bytes], bool]
    ) -> list[tuple[bytes, bytes]]:
        """Read the committed keys and values from `start` to `stop` whose keys are `wanted`, in
        order.

        Waits until all transactions in this range have ended. Raises MarkerUnreadable, KafkaError,
        ClientError.
        """
        options = ReadOptions(
            self._options.bootstrap,
            {"isolation.level": "read_committed", **self._options.admin_config},
            wait_ms=_WAIT_MS,
        )
        found: list[tuple[bytes, bytes]] = []

        async def look(batches: Any) -> None:
            for _, data, header in batches:
                for record in records(data, header):
                    if not (start <= record.offset < stop and record.key and record.value):
                        continue
                    if wanted(bytes(record.key)):
                        found.append((bytes(record.key), bytes(record.value)))

        span = OffsetRange(tp.topic, tp.partition, start, stop)
        try:
            await RangeFetch(self._cluster, span, options, options.config).run(look)
        except DataLost as e:
            raise MarkerUnreadable(
                f"the markers of published batches in {tp} cannot be read: {e}"
            ) from e
        return found
