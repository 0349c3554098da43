"""Produce: refusals, the time of the answers, and the state of idempotent producers.

Each test runs with the fast path and without it.
"""

import struct
import time
from contextlib import AbstractAsyncContextManager

import pytest
import trio
from nodes import Caller, caller_of, make_topic, trio_test
from nodes import running_node as running_node_with

from pk.core.errors import ErrorCode
from pk.core.log.disk import Disk
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.batch import records, write_crc
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.record.legacy import build_set
from pk.core.values import OFFSETS_TOPIC
from pk.core.wire.header import frame_request
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pk.net.node import Node

NOW_MS = int(time.time() * 1000)

pytestmark = pytest.mark.usefixtures("path")
_SWITCH = "pk__produce__fast__path__enable"
_keys: dict[str, str] = {}
"""The keys of the nodes of the test that runs."""


@pytest.fixture(params=["fast path", "general path"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that Produce requests go."""
    monkeypatch.setitem(_keys, _SWITCH, str(request.param == "fast path").lower())


def running_node(disk: Disk | None = None) -> AbstractAsyncContextManager[Node]:
    return running_node_with(disk, **_keys)


def batch(*values: bytes | None, key: bytes | None = None, **options: object) -> bytearray:
    return build_batch([(NOW_MS, key, value, ()) for value in values or (b"v",)], **options)  # type: ignore[arg-type]


def request(
    data: bytes | bytearray | None, topic: str = "t", partition: int = 0, acks: int = -1
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=data)],
            )
        ],
    )


def answer_of(response: ProduceResponse) -> tuple[int, int]:
    """(error, base offset) of the only partition."""
    answer = response.responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


async def produce(
    caller: Caller, data: bytes | bytearray | None, version: int = 9
) -> tuple[int, int]:
    return answer_of(await caller.call(request(data), version))


async def values_in(caller: Caller, topic: str = "t") -> list[bytes | None]:
    response = await caller.call(
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)],
                )
            ],
        ),
        11,
    )
    data = response.responses[0].partitions[0].records
    return [record.value for record in records(data)] if data else []


@trio_test
async def test_offsets_follow_each_other() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert await produce(caller, batch(b"a", b"b", b"c")) == (0, 0)
        assert await produce(caller, batch(b"d")) == (0, 3)


@pytest.mark.parametrize(
    ("name", "data", "version", "error"),
    [
        ("nothing", None, 9, ErrorCode.INVALID_RECORD),
        ("empty", b"", 9, ErrorCode.INVALID_RECORD),
        ("two batches", bytes(batch()) + bytes(batch()), 9, ErrorCode.INVALID_RECORD),
        ("half a batch", bytes(batch())[:-1], 9, ErrorCode.INVALID_RECORD),
        ("zstd too early", batch(codec=Codec.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (
            "transactional",
            batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
            9,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-",
)  # fmt: skip
def test_bad_batches_are_refused(name: str, data: bytes | None, version: int, error: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "t")
            assert await produce(caller, data, version) == (error, -1), name
            assert await values_in(caller) == []

    run()


@trio_test
async def test_a_flipped_bit_is_a_corrupt_message() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        damaged = batch(b"value")
        damaged[-3] ^= 1
        code, _ = await produce(caller, damaged)
        assert code == ErrorCode.CORRUPT_MESSAGE
        assert await values_in(caller) == []


@trio_test
async def test_a_count_that_lies_is_an_invalid_record_even_with_a_good_crc() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        lying = batch(b"a", b"b")
        struct.pack_into(">i", lying, 57, 3)
        struct.pack_into(">i", lying, 23, 2)
        write_crc(lying)
        assert await produce(caller, lying) == (ErrorCode.INVALID_RECORD, -1)


@trio_test
async def test_zstd_is_taken_from_version_7_on() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert await produce(caller, batch(b"a", codec=Codec.ZSTD), 7) == (0, 0)


@trio_test
async def test_max_message_bytes_counts_the_batch_as_it_was_sent() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", max__message__bytes="1000")
        assert await produce(caller, batch(bytes(2000))) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
        assert await produce(caller, batch(bytes(2000), codec=Codec.GZIP)) == (0, 0)


@trio_test
async def test_keyless_records_are_refused_where_the_topic_is_compacted() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", cleanup__policy="compact")
        assert await produce(caller, batch(b"v")) == (ErrorCode.INVALID_RECORD, -1)
        assert await produce(caller, batch(b"v", key=b"k")) == (0, 0)


@pytest.mark.parametrize("version", [2, 9])
def test_compression_type_of_the_topic_is_what_is_stored(version: int) -> None:
    @trio_test
    async def run() -> None:
        values: list[bytes | None] = [b"a" * 500, b"b" * 500]
        old = build_set([(i, NOW_MS, None, value) for i, value in enumerate(values)], 1)
        sent = old if version == 2 else batch(*values)
        async with running_node() as node, caller_of(node) as caller:
            for codec in ("gzip", "snappy", "lz4", "zstd"):
                await make_topic(caller, codec, compression__type=codec)
                response = await caller.call(request(sent, codec), version)
                assert answer_of(response) == (0, 0), codec
                assert node.broker.data.replicas.partition(codec, 0).log.state.size < 300
                assert await values_in(caller, codec) == values

    run()


@trio_test
async def test_timestamps_too_far_in_the_future_are_refused() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        late = build_batch([(int(time.time() * 1000) + 7_200_000, None, b"v", ())])
        assert await produce(caller, late) == (ErrorCode.INVALID_TIMESTAMP, -1)


@trio_test
async def test_acks_other_than_the_three_are_refused() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        response = await caller.call(request(batch(), acks=2), 9)
        assert answer_of(response) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)


@trio_test
async def test_acks_0_has_no_answer_and_an_error_closes_the_connection() -> None:
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(other, "t")
        await caller.send(request(batch(b"unanswered"), acks=0), 9)
        assert await produce(caller, batch(b"answered")) == (0, 1)
        await caller.send(request(batch(), topic="missing", acks=0), 9)
        assert await caller.at_end()
        assert await values_in(other) == [b"unanswered"]


@trio_test
async def test_acks_0_with_one_bad_partition_appends_the_others() -> None:
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(other, "t")
        sent = request(batch(b"good"), topic="missing", acks=0)
        sent.topic_data += request(batch(b"good")).topic_data
        await caller.send(sent, 9)
        assert await caller.at_end()
        assert await values_in(other) == [b"good"]


@trio_test
async def test_only_an_admin_writes_to_internal_topics() -> None:
    async with running_node() as node, caller_of(node) as caller:
        refused = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert answer_of(await caller.call(request(batch(), OFFSETS_TOPIC), 9)) == refused
        await make_topic(caller, OFFSETS_TOPIC)
        refused = (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
        for version in (2, 9):
            old = build_set([(0, NOW_MS, b"k", b"v")], 1)
            sent = request(old if version < 3 else batch(), OFFSETS_TOPIC)
            assert answer_of(await caller.call(sent, version)) == refused
        frame = frame_request(request(batch(), OFFSETS_TOPIC), 9, 7, "__admin_client")
        await caller.stream.send_all(frame)
        assert answer_of(await caller.receive(0, 9)) == (0, 0)


@pytest.mark.parametrize("version", [9, 12])
def test_a_topic_without_a_name_is_missing(version: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            refused = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
            assert answer_of(await caller.call(request(batch(), topic=""), version)) == refused

    run()


@trio_test
async def test_one_bad_partition_does_not_touch_the_others() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", 2)
        both = request(batch())
        both.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=b"?" * 70))
        both.topic_data[0].partition_data.append(PartitionProduceData(index=7, records=batch()))
        answers = (await caller.call(both, 9)).responses[0].partition_responses
        assert answers[0].error_code == 0
        assert answers[1].error_code != 0
        assert answers[2].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@trio_test
async def test_by_id_a_topic_made_again_is_another_topic() -> None:
    async with running_node() as node, caller_of(node) as caller:
        topic_id = await make_topic(caller, "t")
        by_id = request(batch())
        by_id.topic_data[0].topic_id = topic_id
        by_id.topic_data[0].name = ""
        assert answer_of(await caller.call(by_id, 13)) == (0, 0)
        by_id.topic_data[0].topic_id = bytes(15) + b"\7"
        assert answer_of(await caller.call(by_id, 13)) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


async def producer_id_of(caller: Caller) -> int:
    response = await caller.call(InitProducerIdRequest(transactional_id=None), 4)
    assert response.error_code == 0 and response.producer_epoch == 0
    return response.producer_id


def idempotent(producer_id: int, sequence: int, epoch: int = 0, count: int = 1) -> bytearray:
    return batch(
        *[b"%d" % (sequence + i) for i in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@trio_test
async def test_sequences() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        unknown, other = await producer_id_of(caller), await producer_id_of(caller)
        assert unknown != other
        assert await produce(caller, idempotent(unknown, 17)) == (0, 0), (
            "an unknown one may start anywhere"
        )
        assert await produce(caller, idempotent(unknown, 18)) == (0, 1)
        assert await produce(caller, idempotent(unknown, 17)) == (0, 0), (
            "a duplicate has its old offset"
        )
        assert await produce(caller, idempotent(unknown, 20)) == (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            -1,
        )
        for i in range(5):
            assert await produce(caller, idempotent(unknown, 19 + i)) == (0, 2 + i)
        assert await produce(caller, idempotent(unknown, 17)) == (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            -1,
        )
        assert await produce(caller, idempotent(unknown, 5, epoch=1)) == (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            -1,
        )
        assert await produce(caller, idempotent(unknown, 0, epoch=1)) == (0, 7)
        assert await produce(caller, idempotent(unknown, 24)) == (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            -1,
        )


@trio_test
async def test_sequences_wrap_from_the_largest_to_0() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        producer_id = await producer_id_of(caller)
        assert await produce(caller, idempotent(producer_id, 0x7FFFFFFF)) == (0, 0)
        assert await produce(caller, idempotent(producer_id, 0)) == (0, 1)
        assert await produce(caller, idempotent(producer_id, 0x7FFFFFFF)) == (0, 0)


@pytest.mark.parametrize("clean", [True, False])
def test_duplicates_are_known_after_a_restart(clean: bool) -> None:
    @trio_test
    async def run() -> None:
        disk = MemoryDisk()
        async with running_node(disk) as node, caller_of(node) as caller:
            await make_topic(caller, "t")
            producer_id = await producer_id_of(caller)
            assert await produce(caller, idempotent(producer_id, 0)) == (0, 0)
            assert await produce(caller, idempotent(producer_id, 1, count=3)) == (0, 1)
        if not clean:
            disk.remove("/data/.kafka_cleanshutdown")
        async with running_node(disk) as node, caller_of(node) as caller:
            assert await produce(caller, idempotent(producer_id, 1, count=3)) == (0, 1)
            assert await produce(caller, idempotent(producer_id, 5)) == (
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                -1,
            )
            assert await produce(caller, idempotent(producer_id, 4)) == (0, 4)
            fresh = await producer_id_of(caller)
            assert fresh != producer_id, "ids are never given twice"

    run()


@trio_test
async def test_a_transactional_id_has_no_coordinator_before_it_was_looked_for() -> None:
    async with running_node() as node, caller_of(node) as caller:
        response = await caller.call(
            InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000), 4
        )
        assert response.error_code == ErrorCode.NOT_COORDINATOR
        response = await caller.call(InitProducerIdRequest(transactional_id=""), 4)
        assert response.error_code == ErrorCode.INVALID_REQUEST


@trio_test
async def test_a_producer_that_was_fenced_names_both_its_id_and_its_epoch() -> None:
    async with running_node() as node, caller_of(node) as caller:
        for producer_id, epoch, code in (
            (7, -1, ErrorCode.INVALID_REQUEST),
            (-1, 7, ErrorCode.INVALID_REQUEST),
            (7, 7, ErrorCode.NONE),
        ):
            sent = InitProducerIdRequest(
                transactional_id=None, producer_id=producer_id, producer_epoch=epoch
            )
            response = await caller.call(sent, 3)
            assert response.error_code == code
            assert (response.producer_epoch == 0) == (code == ErrorCode.NONE)


@trio_test
async def test_flush_messages_syncs_before_the_answer_and_one_sync_serves_many() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t", flush__messages="1")
        partition = node.broker.data.replicas.partition("t", 0)

        async def one() -> None:
            async with caller_of(node) as own:
                assert (await produce(own, batch(b"v")))[0] == 0
                assert partition.log.durability.recovery_point > 0

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(one)
        assert partition.log.durability.recovery_point == partition.log.state.log_end_offset == 20


@trio_test
async def test_pipelined_requests_are_answered_in_order() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        for i in range(50):
            await caller.send(request(batch(b"%d" % i)), 9)
            if i % 7 == 0:
                await caller.send(
                    ListOffsetsRequest(
                        replica_id=-1,
                        topics=[
                            ListOffsetsTopic(
                                name="t", partitions=[ListOffsetsPartition(timestamp=-1)]
                            )
                        ],
                    ),
                    4,
                )
        correlation_id = caller.last_correlation_id
        for i in range(50):
            assert answer_of(await caller.receive(0, 9)) == (0, i)
            correlation_id += 1
            assert caller.last_correlation_id == correlation_id
            if i % 7 == 0:
                reported = await caller.receive(2, 4)
                correlation_id += 1
                assert reported.topics[0].partitions[0].offset == i + 1
