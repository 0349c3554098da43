"""A consumer's fetch session reads only partitions that moved, and hears of every move
(KIP-227)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from api.fetching import batch, fetch, offsets, only, produce
from log.support import make_batch
from msgspec.structs import replace
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.partition import READ_COMMITTED, Partition
from pk.core.errors import ErrorCode
from pk.core.record.batch import read_header
from pk.core.record.build import end_transaction_batch
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.fetch import ForgottenTopic
from pk.net.node import Node

LONG_MS = 30_000
"""No test waits this long, because new records end the wait."""


class Session:
    """A consumer's session, kept as Java's consumer keeps it."""

    def __init__(self, caller: Caller, version: int = 11, **fields: Any) -> None:
        self.caller = caller
        self.version = version
        self.fields = fields
        self.id = self.epoch = 0

    async def poll(self, *wanted: tuple[int, int], **fields: Any) -> Any:
        """One fetch that names `wanted` (partition, offset); raises the session's error as an
        assertion."""
        await self.send(*wanted, **fields)
        return await self.receive()

    async def send(self, *wanted: tuple[int, int], **fields: Any) -> None:
        forgotten = fields.pop("forgotten", [])
        request = fetch(
            *wanted,
            **{"session_id": self.id, "session_epoch": self.epoch} | self.fields | fields,
        )
        request.forgotten_topics_data = forgotten
        await self.caller.send(request, self.version)

    async def receive(self) -> Any:
        response = await self.caller.receive(1, self.version)
        if not response.error_code:
            self.id, self.epoch = response.session_id, self.epoch + 1
        return response


def reported(response: Any) -> dict[int, list[int]]:
    """Partition → offsets, of those that are named."""
    assert response.error_code == 0
    return {
        p.partition_index: offsets(p.records)
        for topic in response.responses
        for p in topic.partitions
    }


@asynccontextmanager
async def a_session(
    partitions: int = 1, slots: int = 1000
) -> AsyncIterator[tuple[Node, Caller, Session]]:
    """A node with a topic, and a session over its partitions that has found nothing so far."""
    keys = {"max.incremental.fetch.session.cache.slots": str(slots)}
    async with (
        running_node(None, **keys) as node,
        caller_of(node) as other,
        caller_of(node) as caller,
    ):
        await make_topic(other, "t", partitions)
        session = Session(caller)
        await session.poll(*((number, 0) for number in range(partitions)))
        assert reported(await session.poll()) == {}
        yield node, other, session


@trio_test
async def test_an_idle_poll_reads_nothing() -> None:
    async with a_session(50) as (node, other, session):
        cached = node.broker.data.fetch_sessions.next(session.id, session.epoch, False, 0)
        session.epoch += 1
        assert not cached.dirty
        await produce(other, batch(b"a"), partition=7)
        assert [fetched.partition for fetched in cached.dirty.values()] == [7]
        assert reported(await session.poll()) == {7: [0]}
        assert reported(await session.poll((7, 1))) == {}
        assert not cached.dirty


@trio_test
async def test_news_ends_the_waiting_again_and_again() -> None:
    async with a_session(3) as (_, other, session):
        for offset in range(3):
            await session.send(max_wait_ms=LONG_MS)
            await produce(other, batch(b"a"), partition=1)
            assert reported(await session.receive()) == {1: [offset]}
            assert reported(await session.poll((1, offset + 1))) == {}


@trio_test
async def test_what_did_not_fit_is_not_forgotten() -> None:
    async with a_session(4) as (_, other, session):
        for number in range(4):
            await produce(other, batch(bytes(1000)), partition=number)
        found: dict[int, list[int]] = {}
        wanted: list[tuple[int, int]] = []
        for _ in range(4):
            news = reported(await session.poll(*wanted, max_bytes=900))
            served = {number: seen for number, seen in news.items() if seen}
            assert len(served) == 1, "the one first in turn, whole"
            found |= served
            wanted = [(number, 1) for number in served]
        assert found == {number: [0] for number in range(4)}
        assert reported(await session.poll(*wanted)) == {}


@trio_test
async def test_min_bytes_count_over_all_that_is_there() -> None:
    async with a_session(2) as (_, other, session):
        await produce(other, batch(bytes(600)), partition=0)
        assert reported(await session.poll(min_bytes=1000)) == {0: [0]}, "its time was over"
        await session.send(min_bytes=1000, max_wait_ms=LONG_MS)
        await produce(other, batch(bytes(600)), partition=1)
        assert reported(await session.receive()) == {0: [0], 1: [0]}


@trio_test
async def test_a_forgotten_partition_tells_nothing() -> None:
    async with a_session(2) as (_, other, session):
        await session.poll(forgotten=[ForgottenTopic(topic="t", partitions=[1])])
        await session.send(max_wait_ms=LONG_MS)
        await produce(other, batch(b"a"), partition=1)
        await produce(other, batch(b"a"), partition=0)
        assert reported(await session.receive()) == {0: [0]}


@trio_test
async def test_a_new_log_start_is_sent_with_the_next_news() -> None:
    async with a_session() as (node, other, session):
        partition = node.broker.data.replicas.partition("t", 0)
        await produce(other, batch(b"a"), batch(b"b"))
        await session.poll()
        assert reported(await session.poll((0, 2))) == {}
        partition.delete_before(1)
        assert only(await session.poll()).log_start_offset == 1


async def delete(caller: Caller) -> None:
    response = await caller.call(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=LONG_MS), 6
    )
    assert response.responses[0].error_code == 0


@trio_test
async def test_a_topic_deleted_and_made_again_by_name() -> None:
    async with a_session() as (_, other, session):
        await session.send(max_wait_ms=LONG_MS)
        await delete(other)
        gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert only(await session.receive()).error_code in gone
        for _ in range(2):  # it is reported again, not only once
            assert only(await session.poll()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await make_topic(other, "t")
        await produce(other, batch(b"new"))
        assert reported(await session.poll()) == {0: [0]}
        assert reported(await session.poll((0, 1))) == {}
        await session.send(max_wait_ms=LONG_MS)
        await produce(other, batch(b"newer"))
        assert reported(await session.receive()) == {0: [1]}


@trio_test
async def test_a_topic_deleted_and_made_again_by_id() -> None:
    async with running_node() as node, caller_of(node) as other, caller_of(node) as caller:
        old = await make_topic(other, "t")
        session = Session(caller, 13)
        await session.poll((0, 0), topic_id=old)
        assert reported(await session.poll()) == {}
        await delete(other)
        new = await make_topic(other, "t")
        await produce(other, batch(b"new"))
        codes = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
        for _ in range(2):
            assert only(await session.poll()).error_code in codes
        forgotten = [ForgottenTopic(topic_id=old, partitions=[0])]
        assert reported(await session.poll((0, 0), topic_id=new, forgotten=forgotten)) == {0: [0]}
        assert reported(await session.poll((0, 1), topic_id=new)) == {}


def append_transactional(partition: Partition, now_ms: int) -> None:
    data = make_batch(
        timestamp=now_ms, producer_id=7, producer_epoch=0, sequence=0, transactional=True
    )
    partition.append(data, read_header(data), now_ms=now_ms)


@trio_test
@pytest.mark.parametrize("commit", [False, True])
async def test_a_reader_of_committed_records_hears_of_the_end_of_a_transaction(
    commit: bool,
) -> None:
    async with running_node() as node, caller_of(node) as other, caller_of(node) as caller:
        await make_topic(other, "t")
        partition, now_ms = node.broker.data.replicas.partition("t", 0), node.broker.clock.now_ms()
        session = Session(caller, isolation_level=READ_COMMITTED)
        await session.poll((0, 0))
        append_transactional(partition, now_ms)
        await produce(other, batch(b"behind it"))
        found = only(await session.poll())
        assert (offsets(found.records), found.last_stable_offset) == ([], 0)
        assert reported(await session.poll()) == {}
        await session.send(max_wait_ms=LONG_MS)
        partition.append(end_transaction_batch(commit, 0, 7, 0, now_ms), now_ms=now_ms)
        found = only(await session.receive())
        assert (offsets(found.records), found.last_stable_offset) == ([0, 1, 2], 3)
        aborted = [(a.producer_id, a.first_offset) for a in found.aborted_transactions]
        assert aborted == ([] if commit else [(7, 0)])


@trio_test
async def test_a_change_of_leader_is_reported_until_it_is_over() -> None:
    async with running_node() as node, caller_of(node) as other, caller_of(node) as caller:
        await make_topic(other, "t")
        session = Session(caller, 10)  # which reads from leaders only
        await session.poll((0, 0))
        assert reported(await session.poll()) == {}
        partition = node.broker.data.replicas.partition("t", 0)
        ours = partition.image
        assert ours is not None
        epoch = ours.partition_epoch
        await session.send(max_wait_ms=LONG_MS)
        partition.apply(replace(ours, leader=2, leader_epoch=1, partition_epoch=epoch + 1))
        assert only(await session.receive()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert only(await session.poll()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.apply(replace(ours, leader_epoch=2, partition_epoch=epoch + 2))
        fenced = await session.poll((0, 0), current_leader_epoch=1)
        assert only(fenced).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert only(await session.poll()).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert reported(await session.poll((0, 0), current_leader_epoch=2)) == {0: []}
        assert reported(await session.poll()) == {}
        await session.send(max_wait_ms=LONG_MS)
        await produce(other, batch(b"a"))
        assert reported(await session.receive()) == {0: [0]}


@trio_test
async def test_a_full_cache_serves_without_a_session() -> None:
    async with a_session(slots=1) as (node, other, session), caller_of(node) as late:
        second = Session(late)
        assert reported(await second.poll((0, 0))) == {0: []}
        assert second.id == 0
        await second.send((0, 0), max_wait_ms=LONG_MS, session_epoch=-1)
        await produce(other, batch(b"a"))
        assert reported(await second.receive()) == {0: [0]}
        assert reported(await session.poll()) == {0: [0]}, "the one that has a session keeps it"


@trio_test
async def test_a_session_that_makes_room_for_a_follower_answers_what_it_was_asked() -> None:
    async with a_session(slots=1) as (node, other, session), caller_of(node) as follower:
        await session.send(max_wait_ms=LONG_MS)
        while not node.broker.purgatory.size:
            await trio.lowlevel.checkpoint()
        opened = await follower.call(fetch((0, 0), session_epoch=0, replica_id=2), 11)
        assert opened.session_id not in (0, session.id)
        await produce(other, batch(b"a"))
        assert reported(await session.receive()) == {0: [0]}
        lost = await session.poll()
        assert lost.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@trio_test
@pytest.mark.parametrize("seed", range(6))
async def test_a_session_tells_what_a_read_of_everything_would(seed: int) -> None:
    """Whatever happens, a poll names those partitions that have records for the client, or another
    high watermark or log start than it was told of last."""
    random, count = Random(seed), 5
    async with a_session(count) as (node, other, session):
        partitions = [node.broker.data.replicas.partition("t", number) for number in range(count)]
        at = dict.fromkeys(range(count), 0)
        known: dict[int, tuple[int, int]] = dict.fromkeys(range(count), (0, 0))
        for _ in range(120):
            number = random.randrange(count)
            partition = partitions[number]
            action = random.choice(("produce", "produce", "poll", "poll", "delete", "seek"))
            wanted: dict[int, int] = {}
            if action == "produce":
                await produce(other, batch(b"a", b"b"), partition=number)
                continue
            if action == "delete":
                partition.delete_before(random.randint(0, partition.high_watermark))
                continue
            if action == "seek":
                start = partition.log.state.log_start_offset
                wanted[number] = at[number] = random.randint(start, partition.high_watermark)
            for other_number, seen in enumerate(partitions):
                if at[other_number] < seen.log.state.log_start_offset:
                    wanted[other_number] = at[other_number] = seen.log.state.log_start_offset
            news = await session.poll(*wanted.items())
            expected = {
                n: list(range(at[n] // 2 * 2, seen.high_watermark))
                if at[n] < seen.high_watermark
                else []
                for n, seen in enumerate(partitions)
                if at[n] < seen.high_watermark
                or known[n] != (seen.high_watermark, seen.log.state.log_start_offset)
            }
            assert reported(news) == expected
            for n in expected:
                seen = partitions[n]
                known[n] = seen.high_watermark, seen.log.state.log_start_offset
            advanced = {n: found[-1] + 1 for n, found in reported(news).items() if found}
            if advanced:
                at |= advanced
                assert reported(await session.poll(*advanced.items())) == {}
