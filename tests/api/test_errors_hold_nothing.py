"""An error that was answered leaves nothing behind: what its frames held is free at once, without a
collection."""

from __future__ import annotations

import gc
import struct
import traceback
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.broker.offload import offload
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.log.failures import LogDirBroken
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.batch import HEADER_BYTES, write_crc
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec, compress
from pk.core.record.legacy import message_parts
from pk.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

BOUND = 16 << 20
HOSTILE = 10
LEFT_BYTES_MAX = 20 << 20
ATTRIBUTES_AT = 22


@contextmanager
def uncollected() -> Iterator[None]:
    """Within it nothing is collected. After it no exception may be found that only a collection
    would free."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [repr(found) for found in gc.garbage if isinstance(found, Exception)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left


def expanding(codec: Codec) -> bytearray:
    """A batch that expands to a little more than the bound."""
    batch = build_batch([(1, b"k", b"v", ())])
    del batch[HEADER_BYTES:]
    batch += compress(codec, bytes(BOUND + 1000))
    batch[ATTRIBUTES_AT] |= codec
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    write_crc(batch)
    return batch


async def produce(
    caller: Caller,
    records: bytes | bytearray,
    version: int = 9,
    topic: str = "t",
    transactional_id: str | None = None,
) -> int:
    """The error code."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(records=records)])
    request = ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[data]
    )
    response = await caller.call(request, version)
    return response.responses[0].partition_responses[0].error_code


@pytest.mark.thorough
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.name)
def test_batches_that_expand_too_far(codec: Codec) -> None:
    bomb = expanding(codec)

    @trio_test
    async def run() -> None:
        keys = {"pk__decompressed__bytes__max": str(BOUND)}
        async with running_node(None, **keys) as node, caller_of(node) as caller:
            await make_topic(caller, "t")
            with uncollected():
                assert await produce(caller, bomb) == ErrorCode.MESSAGE_TOO_LARGE
                tracemalloc.start(1)
                try:
                    before, _ = tracemalloc.get_traced_memory()
                    for _ in range(HOSTILE):
                        assert await produce(caller, bomb) == ErrorCode.MESSAGE_TOO_LARGE
                    after, peak = tracemalloc.get_traced_memory()
                finally:
                    tracemalloc.stop()
                assert after - before < LEFT_BYTES_MAX
                assert peak - before < 3 * BOUND

    run()


@trio_test
async def test_a_higher_bound_takes_them() -> None:
    value = bytes(BOUND + 1000)
    batch = build_batch([(1, b"k", value, ())], codec=Codec.ZSTD)
    keys = {"pk__decompressed__bytes__max": str(BOUND)}
    async with running_node(None, **keys) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert await produce(caller, batch) == ErrorCode.MESSAGE_TOO_LARGE
    keys = {"pk__decompressed__bytes__max": str(2 * BOUND)}
    async with running_node(None, **keys) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert await produce(caller, batch) == ErrorCode.NONE


def wrapper() -> bytes:
    """A message of format v1 that expands to more than the bound."""
    packed = compress(Codec.GZIP, bytes(BOUND + 1000))
    return b"".join(message_parts([(0, 1, None, packed)], 1, Codec.GZIP))


def batch(*keys: bytes | None, **options: int) -> bytearray:
    return build_batch([(1, key, b"v", ()) for key in keys or (b"k",)], **options)  # type: ignore[arg-type]


def transactional() -> bytearray:
    return build_batch(
        [(1, b"k", b"v", ())],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


async def unknown_member(caller: Caller) -> int:
    request = HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
    return (await caller.call(request, 3)).error_code


async def no_transaction(caller: Caller) -> int:
    topic = AddPartitionsToTxnTopic(name="t", partitions=[0])
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[topic],
    )
    answer = await caller.call(request, 3)
    return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


async def a_topic_again(caller: Caller) -> int:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    return (await caller.call(CreateTopicsRequest(topics=[topic]), 5)).topics[0].error_code


async def beyond_the_end(caller: Caller) -> int:
    wanted = FetchPartition(partition=0, fetch_offset=99, partition_max_bytes=100)
    request = FetchRequest(max_wait_ms=100, topics=[FetchTopic(topic="t", partitions=[wanted])])
    return (await caller.call(request, 11)).responses[0].partitions[0].error_code


E = ErrorCode
Ask = Callable[[Caller], Awaitable[int]]
REFUSED: dict[str, tuple[Ask, ErrorCode]] = {
    "a batch that expands": (lambda c: produce(c, expanding(Codec.ZSTD)), E.MESSAGE_TOO_LARGE),
    "a message that expands": (lambda c: produce(c, wrapper(), 2), E.MESSAGE_TOO_LARGE),
    "no key": (lambda c: produce(c, batch(None), topic="compacted"), E.INVALID_RECORD),
    "no keys in a large batch": (
        lambda c: produce(c, batch(*[b"k", None] * 4000), topic="compacted"),
        E.INVALID_RECORD,
    ),
    "nonsense": (lambda c: produce(c, b"?" * 90), E.CORRUPT_MESSAGE),
    "a sequence out of order": (
        lambda c: produce(c, batch(producer_id=9, producer_epoch=0, base_sequence=5)),
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ),
    "no such transaction": (
        lambda c: produce(c, transactional(), transactional_id="x"),
        E.INVALID_PRODUCER_ID_MAPPING,
    ),
    "no such topic": (lambda c: produce(c, batch(), topic="nope"), E.UNKNOWN_TOPIC_OR_PARTITION),
    "an unknown member": (unknown_member, E.UNKNOWN_MEMBER_ID),
    "no transaction": (no_transaction, E.INVALID_PRODUCER_ID_MAPPING),
    "a topic again": (a_topic_again, E.TOPIC_ALREADY_EXISTS),
    "beyond the end": (beyond_the_end, E.OFFSET_OUT_OF_RANGE),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal(name: str) -> None:
    ask, code = REFUSED[name]

    @trio_test
    async def run() -> None:
        keys = {"pk__decompressed__bytes__max": str(BOUND)}
        async with running_node(None, **keys) as node, caller_of(node) as caller:
            await make_topic(caller, "t")
            await make_topic(caller, "compacted", cleanup__policy="compact")
            first = batch(producer_id=9, producer_epoch=0, base_sequence=0)
            assert await produce(caller, first) == ErrorCode.NONE
            for key_type, key in ((0, "g"), (1, "x")):
                request = FindCoordinatorRequest(key_type=key_type, key=key)
                while (await caller.call(request, 3)).error_code:
                    pass
            while await ask(caller) != code:
                pass  # a coordinator loads
            with uncollected():
                for _ in range(3):
                    assert await ask(caller) == code

    run()


@trio_test
async def test_a_partition_whose_disk_failed() -> None:
    """It refuses everything with the same error."""
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        partition = node.broker.data.replicas.partition("t", 0)
        partition.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk failed"))
        assert await produce(caller, batch()) == ErrorCode.KAFKA_STORAGE_ERROR
        with uncollected():
            for _ in range(3):
                assert await produce(caller, batch()) == ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.offline is not None
        assert partition.offline.__traceback__ is None


@trio_test
async def test_what_a_thread_raises() -> None:
    def fail() -> None:
        raise ValueError("of ours")

    with uncollected():
        for _ in range(3):
            logged = ""
            try:
                await offload(fail)
            except ValueError as e:
                logged = "".join(traceback.format_exception(e))
            assert "in fail" in logged and "of ours" in logged


def test_without_frames() -> None:
    def fail() -> None:
        try:
            raise OSError(5, "Input/output error")
        except OSError as e:
            raise LogDirBroken("/data", "gone") from e

    with pytest.raises(LogDirBroken) as raised:
        fail()
    kept = without_frames(raised.value)
    assert (type(kept), str(kept), vars(kept)) == (
        LogDirBroken,
        str(raised.value),
        vars(raised.value),
    )
    assert kept.__traceback__ is None and kept.__context__ is None
    assert isinstance(kept.__cause__, OSError) and kept.__cause__.errno == 5
    assert kept.__cause__.__traceback__ is None
