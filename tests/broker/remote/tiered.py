"""Clusters with a store for remote segments, and a store that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import trio
from broker.cluster import Cluster, running_cluster
from trio_clock import TrioClock

from pk.core.broker.remote.remote_log_manager import RemoteLogManager
from pk.core.broker.replication.partition import Partition
from pk.core.broker.upkeep.retention import LogRetention
from pk.core.log.files import Data
from pk.core.log.remote.memory_storage import MemoryStorage
from pk.core.log.remote.metadata import RemotePartition, RemoteSegment
from pk.core.log.remote.storage import RemoteStorageError
from pk.core.record.batch import iter_headers, records
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.values import REMOTE_METADATA_TOPIC
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

FETCH_VERSION = 12
TIERED = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "0",
    "segment.bytes": "1048576",
}
CONFIG = {
    "remote.log.storage.system.enable": "true",
    "pk.remote.url": "memory:///",
}


class FailingStorage(MemoryStorage):
    """A store that fails as `fail` decides, before or after an operation."""

    def __init__(self) -> None:
        super().__init__()
        self.fail: Callable[[str, bool], bool] = lambda operation, done: False
        """(operation, whether it is done) → whether it fails there."""
        self.asked: list[str] = []

    def _meet(self, operation: str, done: bool) -> None:
        if not done:
            self.asked.append(operation)
        if self.fail(operation, done):
            raise RemoteStorageError(f"{operation}: the store fails")

    def put(self, name: str, pieces: Callable[[], Iterable[Data]]) -> None:
        self._meet("put", False)
        super().put(name, pieces)
        self._meet("put", True)

    def get(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        self._meet("get", False)
        return super().get(name, start, length)

    def delete(self, name: str) -> None:
        self._meet("delete", False)
        super().delete(name)
        self._meet("delete", True)


class Tiered:
    """A cluster whose topic `t` is tiered."""

    def __init__(self, cluster: Cluster, storage: FailingStorage) -> None:
        self.cluster = cluster
        self.storage = storage
        self.topic_id = b""
        self.clock = TrioClock()
        self._count = 0
        self.sent: list[bytes | None] = []
        """The values that were acknowledged, in order."""

    async def create(self, *replicas: int, **configs: str) -> None:
        """The metadata topic and `t`; in `configs` a dot is two underscores."""
        own = TIERED | {name.replace("__", "."): value for name, value in configs.items()}
        await self.cluster.create(*replicas, topic=REMOTE_METADATA_TOPIC, partitions=2)
        self.topic_id = await self.cluster.create(*replicas, configs=own)
        leader = self.manager(replicas[0])
        await self.cluster.until(lambda: leader.is_idle)  # its first turn

    def manager(self, node: int) -> RemoteLogManager:
        manager = self.cluster.broker(node).remote
        assert manager is not None
        return manager

    async def turn(self, node: int = 1) -> None:
        """One turn of the leader's tasks. Raises what ends it."""
        manager, partition = self.manager(node), self.cluster.partition(node)
        await self.cluster.until(lambda: manager.is_idle)  # a new leader has its first turn at once
        if partition.remote is None:
            await manager.check()
            await self.cluster.until(lambda: manager.is_idle)
        await manager.serve(partition)

    async def retain(self, *nodes: int) -> None:
        """Check retention on these brokers."""
        for node in nodes:
            broker = self.cluster.broker(node)
            await LogRetention(broker.data.replicas, broker.config).check()

    async def produce(self, segments: int, node: int = 1, each: int = 4) -> None:
        """Produce `each` batches of two records for each closed segment, and one more."""
        for _ in range(segments):
            for _ in range(each):
                await self._produce(node)
            end = self.cluster.partition(node).log.state.log_end_offset
            await self.cluster.until(lambda end=end: self.ends() == {end})
            self.roll()
        await self._produce(node)

    async def _produce(self, node: int) -> None:
        self._count += 1
        values = [b"%d %d " % (self._count, n) * 40 for n in range(2)]
        assert await self.cluster.produce(node, *values, timeout_ms=5000) == 0
        self.sent += values

    def produce_transactional(self, *, sequence: int, node: int = 1) -> None:
        """Append one record of an open transaction."""
        now_ms = self.cluster.broker(node).clock.now_ms()
        batch = build_batch(
            [(now_ms, None, b"x" * 100, ())], 0, -1, 7, 0, sequence, transactional=True
        )
        self.cluster.partition(node).append(batch, now_ms=now_ms)

    def abort(self, node: int = 1, *, commit: bool = False) -> None:
        """End that transaction."""
        now_ms = self.cluster.broker(node).clock.now_ms()
        batch = end_transaction_batch(commit, 0, 7, 0, now_ms)
        self.cluster.partition(node).append(batch, now_ms=now_ms)

    def ends(self) -> set[int]:
        """The log ends of all replicas that run."""
        return {found.log.state.log_end_offset for found in self._replicas()}

    def _replicas(self) -> list[Partition]:
        brokers = [m.broker for m in self.cluster.members() if m.broker is not None]
        found = [broker.data.replicas.find("t", 0) for broker in brokers]
        return [partition for partition in found if partition is not None]

    def roll(self) -> None:
        """Close the active segment on all replicas that run."""
        for partition in self._replicas():
            partition.log.segments.roll(self.clock.now_ms())

    def segments(self, node: int = 1) -> list[RemoteSegment]:
        """The remote segments that a broker knows."""
        remote = self.cluster.partition(node).remote
        assert remote is not None
        return list(remote.segments)

    def noted(self, node: int = 1) -> int:
        """How many records the metadata topic has."""
        replicas = self.cluster.broker(node).data.replicas
        found = [replicas.find(REMOTE_METADATA_TOPIC, number) for number in range(2)]
        return sum(p.log.state.log_end_offset for p in found if p is not None)

    def starts(self, node: int = 1) -> tuple[int, int, int]:
        """Log start, local start and log end of a replica."""
        state = self.cluster.partition(node).log.state
        return state.log_start_offset, state.local_log_start_offset, state.log_end_offset

    async def fetch(
        self, offset: int, node: int = 1, *, isolation: int = 0, max_wait_ms: int = 100
    ) -> PartitionData:
        """The answer of a broker to a consumer's Fetch."""
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=isolation,
            topics=[FetchTopic(topic="t", partitions=[asked])],
        )
        answer = await self.cluster.ask(node, request, FETCH_VERSION)
        return answer.responses[0].partitions[0]

    async def read(self, node: int = 1, offset: int = 0) -> list[bytes | None]:
        """The values of all records from `offset` on."""
        values: list[bytes | None] = []
        end = self.cluster.partition(node).high_watermark
        while offset < end:
            found = await self.fetch(offset, node)
            assert found.error_code == 0, found
            assert found.records, (offset, found)
            data = bytes(found.records)
            for position, header in iter_headers(data):
                for record in records(data[position : position + header.size], header):
                    if record.offset >= offset:
                        values.append(record.value)
                        offset = record.offset + 1
        return values

    @property
    def partition(self) -> RemotePartition:
        return RemotePartition("t", self.topic_id, 0)


@asynccontextmanager
async def tiered(brokers: int = 1, **config: str) -> AsyncIterator[Tiered]:
    """A cluster with a store; in `config` a dot is two underscores."""
    given = CONFIG | {name.replace("__", "."): value for name, value in config.items()}
    async with running_cluster(given, brokers=0) as cluster:
        storage = cluster.remote_storage = FailingStorage()
        for node in range(1, brokers + 1):
            await cluster.start(node)
        yield Tiered(cluster, storage)
        await trio.lowlevel.checkpoint()
