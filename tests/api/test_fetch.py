"""Fetch and ListOffsets: limits, epochs, waiting, sessions, and the offsets that have names."""

from typing import Any

import pytest
import trio
import trio.testing
from api.fetching import NOW_MS, batch, fetch, offsets, only, produce
from log.support import append, end_transaction, make_batch
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.api.records import fetch_request
from pk.core.api.records.fetch_request import INLINE_PARTITIONS
from pk.core.broker.replication.partition import READ_COMMITTED
from pk.core.errors import ErrorCode
from pk.core.record.compress import Codec
from pk.core.values import OFFSETS_TOPIC
from pk.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.fetch import (
    ForgottenTopic,
)
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)


@trio_test
async def test_the_first_batch_goes_out_whole_beyond_both_limits() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(caller, batch(bytes(5000)), batch(bytes(5000)))
        small = only(await caller.call(fetch((0, 0), max_bytes=10, partition_max_bytes=10), 11))
        assert offsets(small.records) == [0]
        assert len(small.records) > 5000


@trio_test
async def test_only_the_first_partition_may_exceed_the_limit() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", 2)
        await produce(caller, batch(bytes(5000)))
        await produce(caller, batch(bytes(5000)), partition=1)
        response = await caller.call(fetch((0, 0), (1, 0), max_bytes=10), 11)
        first, second = response.responses[0].partitions
        assert offsets(first.records) == [0] and offsets(second.records) == []
        assert second.high_watermark == 1


@trio_test
async def test_a_slice_begins_with_the_batch_that_holds_the_offset() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(caller, batch(b"a", b"b", b"c"), batch(b"d"))
        assert offsets(only(await caller.call(fetch((0, 1)), 11)).records) == [0, 1, 2, 3]
        assert offsets(only(await caller.call(fetch((0, 3)), 11)).records) == [3]


@trio_test
async def test_a_topic_without_a_name_is_missing() -> None:
    async with running_node() as node, caller_of(node) as caller:
        answer = only(await caller.call(fetch((0, 0), topic=""), 12))
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@trio_test
async def test_offsets_at_the_end_and_beyond() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(caller, batch(b"a"))
        at_end = only(await caller.call(fetch((0, 1)), 11))
        assert (at_end.error_code, offsets(at_end.records)) == (0, [])
        for offset in (2, -1):
            beyond = only(await caller.call(fetch((0, offset)), 11))
            assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert beyond.high_watermark == -1


@trio_test
async def test_between_high_watermark_and_log_end_is_empty_not_out_of_range() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(caller, batch(b"a"), batch(b"b"))
        node.broker.data.replicas.partition("t", 0).high_watermark = 1
        assert offsets(only(await caller.call(fetch((0, 0)), 11)).records) == [0]
        for offset in (1, 2):
            found = only(await caller.call(fetch((0, offset)), 11))
            assert (found.error_code, offsets(found.records), found.high_watermark) == (0, [], 1)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, 0),
        (0, 0),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epochs(epoch: int, error: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "t")
            found = only(await caller.call(fetch((0, 0), current_leader_epoch=epoch), 11))
            assert found.error_code == error
            partition = node.broker.data.replicas.partition("t", 0)
            partition.leader_epoch = 5
            found = only(await caller.call(fetch((0, 0), current_leader_epoch=4), 11))
            assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH

    run()


@trio_test
async def test_zstd_needs_version_10() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(caller, batch(b"a", codec=Codec.ZSTD))
        old = only(await caller.call(fetch((0, 0)), 9))
        assert old.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert offsets(only(await caller.call(fetch((0, 0)), 10)).records) == [0]


@trio_test
async def test_a_fetch_waits_for_records_and_is_woken_by_them() -> None:
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(caller, "t")
        await caller.send(fetch((0, 0), max_wait_ms=30_000), 11)
        await produce(other, batch(b"a"))
        assert offsets(only(await caller.receive(1, 11)).records) == [0]


@trio_test
async def test_a_fetch_that_waits_too_long_is_answered_empty() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        started = trio.current_time()
        found = only(await caller.call(fetch((0, 0), max_wait_ms=50), 11))
        assert offsets(found.records) == [] and trio.current_time() - started >= 0.05


@trio_test
async def test_a_fetch_waits_for_min_bytes() -> None:
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(caller, "t")
        await produce(other, batch(b"a"))
        await caller.send(fetch((0, 0), max_wait_ms=30_000, min_bytes=1000), 11)
        await produce(other, batch(b"b"), batch(bytes(2000)))
        assert offsets(only(await caller.receive(1, 11)).records) == [0, 1, 2]


@trio_test
async def test_produce_goes_ahead_of_a_fetch_that_waits_but_its_answer_does_not() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await caller.send(fetch((0, 0), max_wait_ms=30_000), 11)
        await produce_behind(caller, batch(b"a"))
        assert offsets(only(await caller.receive(1, 11)).records) == [0]
        answer = await caller.receive(0, 9)
        assert answer.responses[0].partition_responses[0].base_offset == 0


async def produce_behind(caller: Caller, data: bytearray) -> None:
    await caller.send(
        ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(
                    name="t", partition_data=[PartitionProduceData(index=0, records=data)]
                )
            ],
        ),
        9,
    )


@trio_test
async def test_a_session_names_only_what_changed() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", 100)
        wanted = [(partition, 0) for partition in range(100)]
        opened = await caller.call(fetch(*wanted, session_epoch=0), 11)
        assert opened.session_id and len(opened.responses[0].partitions) == 100
        session_id = opened.session_id
        idle = await caller.call(fetch(session_id=session_id, session_epoch=1), 11)
        assert (idle.session_id, idle.responses) == (session_id, [])
        await produce(caller, batch(b"a"), partition=42)
        news = await caller.call(fetch(session_id=session_id, session_epoch=2), 11)
        assert [p.partition_index for p in news.responses[0].partitions] == [42]
        moved = await caller.call(fetch((42, 1), session_id=session_id, session_epoch=3), 11)
        assert moved.responses == []
        forgotten = fetch((42, 1), session_id=session_id, session_epoch=4)
        forgotten.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[42])]
        await produce(caller, batch(b"b"), partition=42)
        assert (await caller.call(forgotten, 11)).responses == []
        stale = await caller.call(fetch(session_id=session_id, session_epoch=4), 11)
        assert stale.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        unknown = await caller.call(fetch(session_id=session_id ^ 1, session_epoch=1), 11)
        assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@trio_test
async def test_an_idle_session_of_1000_partitions_sends_a_few_bytes() -> None:
    async with running_node() as node, caller_of(node) as caller:
        topic_id = await make_topic(caller, "t", 1000)
        wanted = [(partition, 0) for partition in range(1000)]
        opened = await caller.call(fetch(*wanted, topic_id=topic_id, session_epoch=0), 17)
        assert len(opened.responses[0].partitions) == 1000
        await caller.send(fetch(session_id=opened.session_id, session_epoch=1), 17)
        assert len(await caller.receive_frame()) < 40


@trio_test
async def test_a_topic_made_again_under_its_name_is_another_topic() -> None:
    async with running_node() as node, caller_of(node) as caller:
        old = await make_topic(caller, "t")
        opened = await caller.call(fetch((0, 0), topic_id=old, session_epoch=0), 13)
        await caller.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        await make_topic(caller, "t")
        found = only(await caller.call(fetch((0, 0), topic_id=old), 13))
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        session = fetch(session_id=opened.session_id, session_epoch=1)
        found = only(await caller.call(session, 13))
        assert found.error_code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


@trio_test
async def test_a_waiting_fetch_ends_when_its_topic_goes() -> None:
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        topic_id = await make_topic(caller, "t")
        await caller.send(fetch((0, 0), topic_id=topic_id, max_wait_ms=30_000), 13)
        await other.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        found = only(await caller.receive(1, 13))
        assert found.error_code in (
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )


def list_offsets(timestamp: int, **fields: Any) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        **{"replica_id": -1} | fields,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
        ],
    )


async def offset_at(caller: Caller, timestamp: int, version: int = 11) -> tuple[int, int, int]:
    """(error, offset, timestamp)."""
    response = await caller.call(list_offsets(timestamp), version)
    found = response.topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


@trio_test
async def test_offsets_that_have_names_and_the_versions_that_know_them() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(
            caller, batch(b"a", at_ms=1000), batch(b"b", b"c", at_ms=3000), batch(b"d", at_ms=2000)
        )
        assert await offset_at(caller, -1) == (0, 4, -1)
        assert await offset_at(caller, -2) == (0, 0, -1)
        assert await offset_at(caller, -3) == (0, 2, 3001)
        assert await offset_at(caller, -4) == (0, 0, -1)
        assert await offset_at(caller, -5) == (0, -1, -1)
        assert await offset_at(caller, -6) == (0, -1, -1)
        for timestamp, first in ((-3, 7), (-4, 8), (-5, 9), (-6, 11)):
            error, _, _ = await offset_at(caller, timestamp, first - 1)
            assert error == ErrorCode.UNSUPPORTED_VERSION
        assert (await offset_at(caller, -7))[0] == ErrorCode.UNSUPPORTED_VERSION


@trio_test
async def test_readers_of_committed_records_learn_what_was_aborted() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        log = node.broker.data.replicas.partition("t", 0).log
        for producer_id, sequence in ((7, 0), (8, 0)):
            data = make_batch(
                timestamp=NOW_MS,
                producer_id=producer_id,
                producer_epoch=0,
                sequence=sequence,
                transactional=True,
            )
            append(log, data, now_ms=NOW_MS)
        end_transaction(log, 7, commit=False)
        await produce(caller, batch(b"a"))
        committed: dict[str, Any] = {"isolation_level": READ_COMMITTED}
        for _ in range(2):
            found = only(await caller.call(fetch((0, 0), **committed), 11))
            assert (found.high_watermark, found.last_stable_offset) == (4, 1)
            assert offsets(found.records) == [0]
            assert [(a.producer_id, a.first_offset) for a in found.aborted_transactions] == [(7, 0)]
            log.state.segments[0].txn_index.lost = True
        assert only(await caller.call(fetch((0, 0)), 11)).aborted_transactions is None
        assert offsets(only(await caller.call(fetch((0, 0)), 11)).records) == [0, 1, 2, 3]


@trio_test
async def test_offsets_by_time() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(
            caller, batch(b"a", at_ms=1000), batch(b"b", b"c", at_ms=3000), batch(b"d", at_ms=2000)
        )
        assert await offset_at(caller, 0) == (0, 0, 1000)
        assert await offset_at(caller, 1001) == (0, 1, 3000)
        assert await offset_at(caller, 3001) == (0, 2, 3001)
        assert await offset_at(caller, 3002) == (0, -1, -1), "past the last timestamp"


@trio_test
async def test_delete_records_moves_the_start() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await produce(caller, batch(b"a"), batch(b"b"), batch(b"c"))

        async def delete(offset: int) -> tuple[int, int]:
            response = await caller.call(
                DeleteRecordsRequest(
                    topics=[
                        DeleteRecordsTopic(
                            name="t", partitions=[DeleteRecordsPartition(offset=offset)]
                        )
                    ]
                ),
                2,
            )
            found = response.topics[0].partitions[0]
            return found.error_code, found.low_watermark

        assert await delete(2) == (0, 2)
        assert await offset_at(caller, -2) == (0, 2, -1)
        assert (
            only(await caller.call(fetch((0, 1)), 11)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        )
        assert offsets(only(await caller.call(fetch((0, 2)), 11)).records) == [2]
        assert await delete(4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(-1) == (0, 3)


@trio_test
async def test_records_of_a_compacted_or_an_internal_topic_are_not_deleted() -> None:
    async with running_node() as node, caller_of(node) as caller:

        async def delete(name: str) -> int:
            topic = DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(offset=-1)])
            response = await caller.call(DeleteRecordsRequest(topics=[topic]), 2)
            return response.topics[0].partitions[0].error_code

        await make_topic(caller, "t", cleanup__policy="compact")
        assert await delete("t") == ErrorCode.POLICY_VIOLATION
        assert await delete(OFFSETS_TOPIC) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await make_topic(caller, OFFSETS_TOPIC, cleanup__policy="compact,delete")
        assert await delete(OFFSETS_TOPIC) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("count", [INLINE_PARTITIONS - 1, INLINE_PARTITIONS, INLINE_PARTITIONS + 1])
def test_what_comes_while_a_look_lets_others_run_is_found(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at many partitions lets others run; a record that comes then lies behind it."""

    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as reader, caller_of(node) as writer:
            await make_topic(reader, "t", count)
            await produce(writer, batch(b"0"), partition=count - 1)
            paused = False

            async def produce_meanwhile() -> None:
                nonlocal paused
                if not paused:
                    paused = True
                    await produce(writer, batch(b"1"))

            monkeypatch.setattr(fetch_request, "let_others_run", produce_meanwhile)
            wanted = [(partition, partition == count - 1) for partition in range(count)]
            await reader.send(fetch(*wanted, max_wait_ms=60_000), 11)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await produce_meanwhile()  # if the look did not let others run
            with trio.fail_after(30):
                response = await reader.receive(1, 11)
            found = [
                p.partition_index for t in response.responses for p in t.partitions if p.records
            ]
            assert found == [0]

    run()
