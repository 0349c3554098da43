"""One way to read a partition: how far, how much, and what keeps a reader out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from log.support import make_batch
from msgspec.structs import replace
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.broker.reader import FetchIsolation, Reader, check_may_read, divergence
from pk.core.broker.replication.partition import Partition
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.config import LogConfig
from pk.core.record.batch import iter_headers, read_header
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.record.compress import Codec

MAX = 1 << 20


@asynccontextmanager
async def a_partition(count: int = 1) -> AsyncIterator[tuple[list[Partition], int]]:
    """Partitions without records, and the time."""
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", count)
        found = [node.broker.data.replicas.partition("t", number) for number in range(count)]
        yield found, node.broker.clock.now_ms()


def offsets(data: bytes | memoryview) -> list[int]:
    return [header.base_offset for _, header in iter_headers(data)]


@trio_test
async def test_each_kind_of_reader_stops_where_it_has_to() -> None:
    async with a_partition() as ([partition], now_ms):
        opened = make_batch(
            timestamp=now_ms, producer_id=7, producer_epoch=0, sequence=0, transactional=True
        )
        partition.append(make_batch(timestamp=now_ms), now_ms=now_ms)
        partition.append(opened, read_header(opened), now_ms=now_ms)
        partition.append(make_batch(timestamp=now_ms), now_ms=now_ms)
        partition.log.appender.append_as_leader(
            batch := make_batch(timestamp=now_ms), read_header(batch), 0, now_ms
        )  # in the log, and not yet below the watermark
        for up_to, expected in (
            (FetchIsolation.LAST_STABLE_OFFSET, [0]),
            (FetchIsolation.HIGH_WATERMARK, [0, 1, 2]),
            (FetchIsolation.LOG_END, [0, 1, 2, 3]),
        ):
            reader = Reader(up_to, MAX)
            reader.begin_round()
            found = reader.read("key", partition, 0, MAX)
            assert offsets(found.records.read()) == expected
            assert reader.end_of(partition) == len(expected)
            assert reader.bytes == found.records.length and found.aborted is None
            assert reader.read("key", partition, len(expected), MAX).records.length == 0


@trio_test
async def test_a_reader_of_committed_records_learns_what_was_aborted() -> None:
    async with a_partition() as ([partition], now_ms):
        opened = make_batch(
            timestamp=now_ms, producer_id=7, producer_epoch=0, sequence=0, transactional=True
        )
        partition.append(opened, read_header(opened), now_ms=now_ms)
        reader = Reader(FetchIsolation.LAST_STABLE_OFFSET, MAX, committed=True)
        reader.begin_round()
        found = reader.read("key", partition, 0, MAX)
        assert found.records.length == 0 and found.aborted == []
        partition.append(end_transaction_batch(False, 0, 7, 0, now_ms), now_ms=now_ms)
        found = reader.read("key", partition, 0, MAX)
        assert found.aborted is not None
        assert [(a.producer_id, a.first_offset) for a in found.aborted] == [(7, 0)]


@trio_test
async def test_the_bytes_of_a_round_are_bounded_over_all_partitions() -> None:
    async with a_partition(3) as (partitions, now_ms):
        for partition in partitions:
            for _ in range(2):
                partition.append(make_batch(timestamp=now_ms, size=1000), now_ms=now_ms)
        size = partitions[0].log.state.size // 2
        reader = Reader(FetchIsolation.HIGH_WATERMARK, size + 100)
        for _ in range(2):  # each round begins afresh
            reader.begin_round()
            lengths = [reader.read(p, p, 0, MAX).records.length for p in partitions]
            assert lengths == [size + 100, 0, 0] and reader.bytes == size + 100
        small = Reader(FetchIsolation.HIGH_WATERMARK, 10)
        small.begin_round()
        lengths = [small.read(p, p, 0, MAX).records.length for p in partitions]
        assert lengths == [size, 0, 0], "the first batch whole"
        each = Reader(FetchIsolation.HIGH_WATERMARK, 10, first_batch_of_each=True)
        each.begin_round()
        assert [each.read(p, p, 0, MAX).records.length for p in partitions] == [size] * 3


@trio_test
async def test_a_client_that_does_not_know_zstd_gets_an_error() -> None:
    async with a_partition() as ([partition], now_ms):
        partition.append(
            build_batch([(now_ms, None, bytes(100), ())], codec=Codec.ZSTD), now_ms=now_ms
        )
        reader = Reader(FetchIsolation.HIGH_WATERMARK, MAX, reads_zstd=False)
        reader.begin_round()
        with pytest.raises(KafkaError) as caught:
            reader.read("key", partition, 0, MAX)
        assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert reader.bytes == 0


@trio_test
async def test_who_may_read() -> None:
    async with a_partition() as ([partition], _):
        ours = partition.image
        assert ours is not None

        def refused(epoch: int, *, from_follower: bool) -> int:
            try:
                check_may_read(partition, epoch, from_follower=from_follower)
            except KafkaError as e:
                return e.code
            return 0

        assert refused(-1, from_follower=False) == refused(0, from_follower=True) == 0
        assert refused(1, from_follower=False) == ErrorCode.UNKNOWN_LEADER_EPOCH
        partition.apply(
            replace(ours, leader=2, leader_epoch=1, partition_epoch=ours.partition_epoch + 1)
        )
        assert refused(-1, from_follower=False) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused(1, from_follower=True) == 0
        assert refused(0, from_follower=True) == ErrorCode.FENCED_LEADER_EPOCH
        with pytest.raises(KafkaError) as caught:
            Reader(FetchIsolation.HIGH_WATERMARK, MAX).read("key", partition, 5, MAX)
        assert caught.value.code == ErrorCode.OFFSET_NOT_AVAILABLE, "a follower may not have it yet"


@trio_test
async def test_where_a_log_diverges() -> None:
    async with a_partition() as ([partition], now_ms):
        log = partition.log
        log.configure(LogConfig())
        for epoch in (0, 0, 2, 2):
            batch = make_batch(timestamp=now_ms)
            log.appender.append_as_leader(batch, read_header(batch), epoch, now_ms)
        assert divergence(log, 99, -1) is None, "not checked"
        assert divergence(log, 4, 2) is None and divergence(log, 2, 0) is None
        assert divergence(log, 3, 0) == (0, 2)
        assert divergence(log, 3, 1) == (0, 2)
        assert divergence(log, 5, 2) == (2, 4)
        with pytest.raises(KafkaError) as caught:
            divergence(log, 4, 3)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
