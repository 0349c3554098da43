"""Produce 0–2, Fetch 0–3 and ListOffsets 0: message sets become batches in the log, and batches
messages."""

import time
from typing import Any

import pytest
import trio
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.replicas import Replicas
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.log import Origin
from pk.core.record.batch import iter_headers, records
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.record.compress import Codec
from pk.core.record.legacy import Row, build_set, iter_messages, message_records
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.net.node import Node

NOW_MS = int(time.time() * 1000)
LATEST, EARLIEST = -1, -2
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
ROWS: list[Row] = [(n, NOW_MS + n, b"k%d" % n, b"value %d" % n) for n in range(20)]
MAGIC_OF_PRODUCE = {0: 0, 1: 0, 2: 1}
MAGIC_OF_FETCH = {0: 0, 1: 0, 2: 1, 3: 1}


async def produce(
    caller: Caller,
    data: bytes | bytearray | None,
    version: int,
    acks: int = -1,
    partition: int = 0,
) -> Any:
    """(error, base offset) of the only partition."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=partition, records=data)]
            )
        ],
    )
    if acks == 0:
        return await caller.send(request, version)
    answer = (await caller.call(request, version)).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


def fetch_request(
    *offsets: int, limit: int = 1 << 20, max_bytes: int = 1 << 20, **fields: Any
) -> FetchRequest:
    """A fetch of partition 0 from the first offset, partition 1 from the second…"""
    defaults: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1}
    return FetchRequest(
        **defaults | fields,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=limit)
                    for p, offset in enumerate(offsets)
                ],
            )
        ],
    )


async def fetch(caller: Caller, offset: int, version: int, **options: Any) -> Any:
    """The answer for partition 0."""
    response = await caller.call(fetch_request(offset, **options), version)
    return response.responses[0].partitions[0]


def rows_in(data: Any, magic: int) -> list[Row]:
    """The rows of a message set whose messages are all of format `magic`. The last message may be
    incomplete."""
    found = list(iter_messages(data))
    assert {header.magic for _, header in found} <= {magic}
    return [record[:4] for at, header in found for record in message_records(data, at, header)]


def timed(rows: list[Row], *magics: int) -> list[Row]:
    return [(o, t if all(magics) else -1, k, v) for o, t, k, v in rows]


async def stored(caller: Caller) -> list[tuple[int, list[Row]]]:
    """(codec, rows) of each batch in the log."""
    data = (await fetch(caller, 0, 11)).records
    return [
        (header.codec, [r[:4] for r in records(data[at : at + header.size])])
        for at, header in iter_headers(data)
    ]


def replicas_of(node: Node) -> Replicas:
    return node.broker.data.replicas


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_set_becomes_one_batch_and_is_fetched_by_every_version(
    version: int, codec: Codec
) -> None:
    @trio_test
    async def run() -> None:
        magic = MAGIC_OF_PRODUCE[version]
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "t")
            assert await produce(caller, build_set(ROWS, magic, codec), version) == (0, 0)
            assert await produce(caller, build_set(ROWS[:1], magic, codec), version) == (0, 20)
            [first, second] = await stored(caller)
            assert first == (codec, timed(ROWS, magic))
            assert second == (codec, [(20, *timed(ROWS, magic)[0][1:])])
            for fetching, wanted in MAGIC_OF_FETCH.items():
                data = await fetch(caller, 0, fetching)
                assert data.high_watermark == 21
                rows = rows_in(data.records, wanted)
                assert rows[:20] == timed(ROWS, magic, wanted)
                assert len(rows) == 21
                middle = rows_in((await fetch(caller, 7, fetching)).records, wanted)
                assert middle == rows[7:]

    run()


@trio_test
async def test_the_topic_has_its_way_with_codec_time_and_keys() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(
            caller, "t", compression__type="lz4", message__timestamp__type="LogAppendTime"
        )
        assert await produce(caller, build_set(ROWS, 1, Codec.GZIP), 2) == (0, 0)
        [(codec, rows)] = await stored(caller)
        assert codec == Codec.LZ4
        assert {row[1] for row in rows} != {row[1] for row in ROWS}
        assert rows_in((await fetch(caller, 0, 2)).records, 1) == rows
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", cleanup__policy="compact")
        keyless = build_set([*ROWS, (20, 1, None, b"v")], 1)
        assert await produce(caller, keyless, 2) == (ErrorCode.INVALID_RECORD, -1)
        assert await produce(caller, build_set(ROWS, 0), 0) == (0, 0)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (build_set(ROWS, 1)[:-1], ErrorCode.CORRUPT_MESSAGE),
        (build_set(ROWS, 1)[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (build_set([(0, 1, None, bytes(3000))], 1), ErrorCode.MESSAGE_TOO_LARGE),
        (build_set([(n, 1, None, bytes(300)) for n in range(9)], 1), ErrorCode.MESSAGE_TOO_LARGE),
        (bytes(build_batch([(1, None, b"v", ())])), ErrorCode.INVALID_RECORD),
    ],
    ids=["none", "empty", "cut off", "wrong CRC", "message too large", "batch too large", "v2"],
)
def test_refused(data: bytes | None, error: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "t", max__message__bytes="2000")
            assert await produce(caller, data, 2) == (error, -1)
            assert await stored(caller) == []

    run()


@trio_test
async def test_acks_0_is_not_answered_and_an_error_closes() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(caller, build_set(ROWS, 1), 2, acks=0)
        assert await produce(caller, build_set(ROWS, 1), 2) == (0, 20)
        await produce(caller, build_set(ROWS, 1)[:-1], 2, acks=0)
        assert await caller.at_end()


@trio_test
async def test_a_large_set_is_converted_in_a_thread_while_others_are_served() -> None:
    rows: list[Row] = [(n, NOW_MS, None, bytes(30)) for n in range(20_000)]
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(caller, "t", max__message__bytes=str(4 << 20))
        assert await produce(caller, build_set(rows, 1), 2) == (0, 0)
        assert await produce(other, build_set(rows, 0, Codec.SNAPPY), 0) == (0, 20_000)
        data = await fetch(caller, 0, 3, limit=8 << 20, max_bytes=8 << 20)
        found = rows_in(data.records, 1)
        assert found[:20_000] == rows
        assert [row[0] for row in found] == list(range(40_000))


@trio_test
async def test_limits_hold_but_the_first_message_is_whole() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", 2)
        big = [(n, NOW_MS, None, bytes(1000)) for n in range(50)]
        await produce(caller, build_set(big, 1), 2)
        for version, magic in MAGIC_OF_FETCH.items():
            one = (await fetch(caller, 3, version, limit=10)).records
            assert [row[0] for row in rows_in(one, magic)] == [3]
            some = (await fetch(caller, 3, version, limit=5000)).records
            assert len(some) == 5000
            assert [row[0] for row in rows_in(some, magic)] == [3, 4, 5, 6]
        await produce(caller, build_set(big, 1), 2, partition=1)
        response = await caller.call(fetch_request(0, 0, max_bytes=3000), 3)
        first, second = (answer.records for answer in response.responses[0].partitions)
        assert (len(first), second) == (3000, b"")
        assert len(rows_in(first, 1)) == 2


def append(node: Node, *batches: bytearray) -> None:
    """Straight into the log, as a coordinator does."""
    partition = replicas_of(node).partition("t", 0)
    for batch in batches:
        partition.append(batch, now_ms=NOW_MS, origin=Origin.COORDINATOR)


def marker() -> bytearray:
    return end_transaction_batch(True, 0, 7, 0, NOW_MS)


def transactional(value: bytes) -> bytearray:
    return build_batch(
        [(NOW_MS, None, value, ())],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


@trio_test
async def test_markers_are_passed_over_however_many_there_are() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        append(node, transactional(b"first"), *(marker() for _ in range(1500)))
        await produce(caller, build_batch([(NOW_MS, None, b"last", ())]), 9)
        for offset in (1, 2, 1500):
            data = await fetch(caller, offset, 0, limit=100)
            assert rows_in(data.records, 0) == [(1501, -1, None, b"last")]


@trio_test
async def test_where_only_markers_are_left_it_waits_for_a_record() -> None:
    async with (
        running_node() as node,
        caller_of(node) as caller,
        caller_of(node) as writer,
        trio.open_nursery() as nursery,
    ):
        await make_topic(caller, "t")
        append(node, transactional(b"first"), marker())
        assert (await fetch(caller, 1, 2, max_wait_ms=20)).records == b""
        answers: list[Any] = []

        async def wait() -> None:
            answers.append(await fetch(caller, 1, 2, max_wait_ms=50_000))

        nursery.start_soon(wait)
        while not node.broker.purgatory.size:
            await trio.lowlevel.checkpoint()
        assert not answers
        assert await produce(writer, build_set([(0, NOW_MS, None, b"next")], 1), 2) == (0, 2)
        while not answers:
            await trio.lowlevel.checkpoint()
        assert rows_in(answers[0].records, 1) == [(2, NOW_MS, None, b"next")]


@trio_test
async def test_zstd_is_for_newer_clients() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(caller, build_set(ROWS, 1), 2)
        zstd = build_batch([(NOW_MS, None, b"z", ())], codec=Codec.ZSTD)
        assert await produce(caller, zstd, 9) == (0, 20)
        assert len(rows_in((await fetch(caller, 0, 3)).records, 1)) == 20
        data = await fetch(caller, 20, 3)
        assert (data.error_code, data.records) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, b"")


@trio_test
async def test_errors_of_a_fetch_are_those_of_any_other() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert (await fetch(caller, 9, 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        response = await caller.call(fetch_request(0, 0), 1)
        answers = [answer.error_code for answer in response.responses[0].partitions]
        assert answers == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@trio_test
async def test_a_failed_disk_sends_old_clients_to_find_another_leader() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        partition = replicas_of(node).partition("t", 0)
        partition.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        for version in (3, 4):
            error, _ = await produce(caller, build_batch([(NOW_MS, None, b"v", ())]), version)
            older = version < 4
            assert error == (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if older else ErrorCode.KAFKA_STORAGE_ERROR
            )
        for version in (3, 5, 6):
            data = await fetch(caller, 0, version, session_epoch=-1)
            older = version < 6
            assert data.error_code == (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if older else ErrorCode.KAFKA_STORAGE_ERROR
            )


# --- ListOffsets 0 ---


async def starts(caller: Caller, timestamp: int, count: int, partition: int = 0) -> Any:
    response = await caller.call(
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="t",
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=partition, timestamp=timestamp, max_num_offsets=count
                        )
                    ],
                )
            ],
        ),
        0,
    )
    answer = response.topics[0].partitions[0]
    return answer.error_code or answer.old_style_offsets


@trio_test
async def test_list_offsets_0_names_segment_starts() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert await starts(caller, LATEST, 5) == [0]
        assert await starts(caller, EARLIEST, 5) == [0]
        log = replicas_of(node).partition("t", 0).log
        for _ in range(3):
            await produce(caller, build_set(ROWS[:4], 1), 2)
            log.segments.roll(NOW_MS)
        await produce(caller, build_set(ROWS[:2], 1), 2)
        assert await starts(caller, LATEST, 1) == [14]
        assert await starts(caller, LATEST, 3) == [14, 12, 8]
        assert await starts(caller, LATEST, 99) == [14, 12, 8, 4, 0]
        assert await starts(caller, LATEST, 0) == []
        assert await starts(caller, EARLIEST, 99) == [0]
        assert await starts(caller, NOW_MS + 10**9, 99) == [14, 12, 8, 4, 0]
        assert await starts(caller, 5, 99) == []
        replicas_of(node).partition("t", 0).delete_before(6)
        assert await starts(caller, EARLIEST, 1) == [6]
        assert await starts(caller, LATEST, 9, partition=4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- OffsetCommit 0 and 1, OffsetFetch 0 ---


@trio_test
async def test_offsets_of_simple_consumers() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", 2)
        while (await coordinator_error(caller)) != 0:
            await trio.lowlevel.checkpoint()
        for version in (0, 1):
            response = await caller.call(
                OffsetCommitRequest(
                    group_id="g",
                    topics=[
                        OffsetCommitRequestTopic(
                            name="t",
                            partitions=[
                                OffsetCommitRequestPartition(
                                    partition_index=0, committed_offset=40 + version
                                )
                            ],
                        )
                    ],
                ),
                version,
            )
            assert [p.error_code for p in response.topics[0].partitions] == [0]
        for version, none in ((0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, 0)):
            response = await caller.call(
                OffsetFetchRequest(
                    group_id="g",
                    topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])],
                ),
                version,
            )
            found = [(p.committed_offset, p.error_code) for p in response.topics[0].partitions]
            assert found == [(41, 0), (-1, none)]


async def coordinator_error(caller: Caller) -> int:
    """That of FindCoordinator 0, which makes the offsets topic at its first call."""
    return (await caller.call(FindCoordinatorRequest(key="g"), 0)).error_code
