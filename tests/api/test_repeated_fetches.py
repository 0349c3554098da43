"""A consumer without a session that fetches the same partitions repeatedly, as librdkafka does: a
partition that has not changed is not examined, and the answer is the same as if it were."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from api.fetching import MAX, batch, produce
from msgspec.structs import replace
from nodes import caller_of, decide, make_topic, running_node, trio_test

from pk.core.api.records import fetch_request
from pk.core.api.records.fetch_request import Fetch
from pk.core.auth.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from pk.core.broker.replication.fetch_sessions import FetchedPartition
from pk.core.broker.replication.partition import READERS_MIN, Partition
from pk.core.config.views import STANDARD_AUTHORIZER
from pk.core.errors import ErrorCode
from pk.core.meta.acls import create_acls
from pk.core.wire.codec import encode
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

COUNT = 100
LONG_MS = 30_000
"""No test waits this long, because new records end the wait."""


def request(
    *wanted: tuple[int, int], topic: str = "t", topic_id: bytes = bytes(16), **fields: Any
) -> FetchRequest:
    """A fetch without a session; `wanted` are partitions with their offsets."""
    partitions = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=MAX)
        for number, offset in wanted
    ]
    common: dict[str, Any] = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": MAX,
        "session_epoch": -1,
    }
    named = FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
    return FetchRequest(**common | fields, topics=[named])


def rotated(start: int, offset: int = 0) -> list[tuple[int, int]]:
    """All partitions from `start` on, at this offset."""
    return [((start + n) % COUNT, offset) for n in range(COUNT)]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The partitions that were read, in order."""
    seen: list[int] = []
    answer_for = Fetch._answer_for

    def noted(self: Fetch, fetched: FetchedPartition) -> Any:
        seen.append(fetched.partition)
        return answer_for(self, fetched)

    monkeypatch.setattr(Fetch, "_answer_for", noted)
    yield seen


def offsets(response: Any) -> dict[int, int]:
    """Partition → high watermark, in the answer's order."""
    return {p.partition_index: p.high_watermark for t in response.responses for p in t.partitions}


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 16])
def test_an_idle_poll_reads_nothing(version: int, reads: list[int]) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
            id_ = await make_topic(caller, "t", COUNT)

            async def poll(start: int) -> dict[int, int]:
                asked = request(*rotated(start), topic="" if version >= 13 else "t", topic_id=id_)
                if version < 13:
                    asked.topics[0].topic_id = bytes(16)
                reads.clear()
                return offsets(await caller.call(asked, version))

            await poll(0)
            assert reads == list(range(COUNT))
            assert list(await poll(7)) == [number for number, _ in rotated(7)]
            assert reads == []
            await produce(other, batch(b"a"), partition=3)
            assert (await poll(1))[3] == 1
            assert reads == [3]
            assert (await poll(2))[3] == 1  # asked for from the start again: there are records
            assert reads == [3]

    run()


@trio_test
async def test_news_ends_the_waiting() -> None:
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(caller, "t", COUNT)
        await caller.call(request(*rotated(0)), 11)
        for number in (5, 50, 5):
            wanted = dict(rotated(number))
            for partition in (5, 50):
                log = node.broker.data.replicas.partition("t", partition).log
                wanted[partition] = log.state.log_end_offset
            await caller.send(request(*wanted.items(), max_wait_ms=LONG_MS), 11)
            await trio.testing.wait_all_tasks_blocked()
            await produce(other, batch(b"a"), partition=number)
            response = await caller.receive(1, 11)
            (served,) = [p for p in response.responses[0].partitions if p.records]
            assert served.partition_index == number
            assert len(response.responses[0].partitions) == COUNT


@trio_test
async def test_two_fetches_at_a_time_are_answered_each_for_itself() -> None:
    """The second is for other offsets, and comes while the first waits."""
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(caller, "t", COUNT)
        await produce(other, batch(b"a"), partition=0)
        await caller.call(request(*rotated(0)), 11)
        await caller.send(request(*rotated(0, 1)[:1], *rotated(1)[:-1], max_wait_ms=LONG_MS), 11)
        await caller.send(request(*rotated(0)), 11)
        await trio.testing.wait_all_tasks_blocked()
        await produce(other, batch(b"b"), partition=9)
        first, second = await caller.receive(1, 11), await caller.receive(1, 11)
        assert [p.partition_index for p in first.responses[0].partitions if p.records] == [9]
        assert {p.partition_index for p in second.responses[0].partitions if p.records} >= {0}
        assert not (await caller.call(request(*rotated(0, 1)), 11)).error_code


@trio_test
@pytest.mark.parametrize("seed", range(6))
async def test_it_is_answered_as_a_read_of_everything_would(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that has never fetched remembers nothing."""
    monkeypatch.setattr(fetch_request, "REPEATED_MIN", 0)
    monkeypatch.setattr(fetch_request, "REPEATED_MAX", 6)
    random, count = Random(seed), 5
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        for topic in ("t", "u"):
            await make_topic(caller, topic, count)
        partitions = [node.broker.data.replicas.partition("t", number) for number in range(count)]
        at = dict.fromkeys(range(count), 0)
        for _ in range(150):
            number = random.randrange(count)
            partition = partitions[number]
            match random.choice(("produce", "poll", "poll", "poll", "delete", "seek", "lead")):
                case "produce" if partition.leads:
                    await produce(other, batch(b"a", b"b"), partition=number)
                case "delete":
                    partition.delete_before(random.randint(0, partition.high_watermark))
                case "seek":
                    at[number] = random.randint(0, partition.high_watermark + 1)
                case "lead":
                    _toggle_leadership(partition)
                case "poll":
                    asked = _asked(random, at)
                    async with caller_of(node) as fresh:
                        expected = await fresh.call(asked, 12)
                    found = await caller.call(asked, 12)
                    assert encode(found, 12) == encode(expected, 12)
                    for answer in found.responses[0].partitions:
                        if not answer.error_code and random.random() < 0.8:
                            at[answer.partition_index] = answer.high_watermark
                case _:
                    pass


def _asked(random: Random, at: dict[int, int]) -> FetchRequest:
    wanted = random.sample(sorted(at.items()), random.randint(1, len(at)))
    asked = request(
        *wanted, isolation_level=random.choice((0, 0, 1)), max_bytes=random.choice((MAX, 100))
    )
    if random.random() < 0.2:
        other = [FetchPartition(partition=n, partition_max_bytes=MAX) for n in range(len(at))]
        asked.topics.append(FetchTopic(topic="u", partitions=other))
    for wish in asked.topics[0].partitions:
        wish.current_leader_epoch = random.choice((-1, -1, -1, 0, 1))
    return asked


def _toggle_leadership(partition: Partition) -> None:
    image = partition.image
    assert image is not None
    leader = -1 if partition.leads else partition.node_id
    partition.apply(
        replace(
            image,
            leader=leader,
            leader_epoch=image.leader_epoch + 1,
            partition_epoch=image.partition_epoch + 1,
        )
    )


@trio_test
async def test_a_topic_deleted_and_made_again() -> None:
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        id_ = await make_topic(caller, "t", COUNT)
        asked = request(*rotated(0), topic="", topic_id=id_)
        assert set(_errors(await caller.call(asked, 13))) == {0}
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=LONG_MS)
        assert not (await other.call(gone, 6)).responses[0].error_code
        assert set(_errors(await caller.call(asked, 13))) == {ErrorCode.UNKNOWN_TOPIC_ID}
        await make_topic(other, "t", COUNT)
        assert set(_errors(await caller.call(asked, 13))) == {ErrorCode.UNKNOWN_TOPIC_ID}


def _errors(response: Any) -> list[int]:
    return [p.error_code for t in response.responses for p in t.partitions]


@trio_test
async def test_an_acl_that_comes_is_heard_of() -> None:
    keys = {"authorizer__class__name": STANDARD_AUTHORIZER}
    keys["allow__everyone__if__no__acl__found"] = "true"
    async with running_node(None, **keys) as node, caller_of(node) as caller:
        await make_topic(caller, "t", COUNT)
        assert set(_errors(await caller.call(request(*rotated(0)), 11))) == {0}
        rule = AclBinding(
            ResourceType.TOPIC,
            "t",
            PatternType.LITERAL,
            "User:*",
            "*",
            Operation.READ,
            Permission.DENY,
        )
        await decide(node.broker, lambda image: create_acls(image, [rule]))
        denied = {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        assert set(_errors(await caller.call(request(*rotated(0)), 11))) == denied


@trio_test
async def test_connections_that_are_gone_are_forgotten() -> None:
    """Nobody writes to the partitions, so nothing else makes them forget."""
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", COUNT)
        for _ in range(3 * READERS_MIN):
            async with caller_of(node) as consumer:
                await consumer.call(request(*rotated(0)), 11)
        partition = node.broker.data.replicas.partition("t", 0)
        assert len(partition.readers) <= READERS_MIN + 1


@trio_test
async def test_one_that_asks_for_more_and_more_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_request, "REPEATED_MAX", COUNT)
    async with running_node() as node, caller_of(node) as caller:
        for topic in ("t", "u", "v"):
            await make_topic(caller, topic, COUNT)
        for topic in ("t", "u", "v", "t"):
            response = await caller.call(request(*rotated(0), topic=topic), 11)
            assert len(_errors(response)) == COUNT
        known = [
            len(session.partitions)
            for session in node.broker.data.replicas.partition("t", 0).readers.values()
        ]
        assert max(known) <= 2 * COUNT
