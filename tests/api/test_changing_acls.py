"""ACLs that change while clients are connected: a request that was allowed is refused the next
time, on every path that requests take."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from api.authorization_scenario import ask_handler, authorizing_node
from api.fetching import batch, fetch
from nodes import Caller, caller_of, decide, trio_test

from pk.core.api.records.produce_fast_path.fast_path import ProduceFastPath
from pk.core.auth.acls import AclBinding, AclFilter, Operation, PatternType, ResourceType
from pk.core.errors import ErrorCode
from pk.core.machine import Decision
from pk.core.meta.acls import create_acls, delete_acls
from pk.core.meta.events import Event
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.net.node import Node

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ANONYMOUS = "User:ANONYMOUS"


def rule(operation: Operation, permission: int = 3, name: str = "t") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, PatternType.LITERAL, ANONYMOUS, "*", operation, permission
    )


@asynccontextmanager
async def node_with_topic() -> AsyncIterator[tuple[Node, Caller, bytes]]:
    """A node with topic t, a client without any right, and the topic's id."""
    async with authorizing_node() as node, caller_of(node) as caller:
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        made = await ask_handler(node, None, request, 7)
        yield node, caller, made.topics[0].topic_id


async def add(node: Node, *rules: AclBinding) -> None:
    assert await decide(node.broker, lambda image: create_acls(image, rules)) == [None] * len(rules)


async def remove(node: Node, *rules: AclBinding) -> None:
    def gone(image: MetadataImage) -> Decision[Event, Any]:
        return delete_acls(image, [AclFilter(*one) for one in rules])

    await decide(node.broker, gone)


def produce(topic_id: bytes, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=bytes(batch(b"v")))
    topic = TopicProduceData(topic_id=topic_id, partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "general path"])
def test_a_producer_whose_right_is_taken_away_is_refused(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = 0
    accept: Callable[..., bool] = ProduceFastPath.accept

    def counted(self: ProduceFastPath, *frame: Any) -> bool:
        nonlocal accepted
        found = fast and accept(self, *frame)
        accepted += found
        return found

    monkeypatch.setattr(ProduceFastPath, "accept", counted)

    @trio_test
    async def run() -> None:
        async with node_with_topic() as (node, caller, topic_id):

            async def code() -> int:
                answer = await caller.call(produce(topic_id), 13)
                return answer.responses[0].partition_responses[0].error_code

            assert await code() == DENIED
            await add(node, rule(Operation.WRITE))
            assert [await code() for _ in range(3)] == [0, 0, 0]
            assert accepted == (3 if fast else 0)
            await add(node, rule(Operation.ALL, permission=2))
            assert [await code(), await code()] == [DENIED, DENIED]
            await remove(node, rule(Operation.ALL, permission=2))
            assert await code() == 0
            partition = node.broker.data.replicas.partition("t", 0)
            assert partition.log.state.log_end_offset == 4

    run()


@trio_test
async def test_a_fetch_session_says_of_a_partition_that_stands_still_that_it_is_refused() -> None:
    async with node_with_topic() as (node, caller, topic_id):
        await add(node, rule(Operation.READ))
        wanted = fetch((0, 0), (1, 0), topic_id=topic_id, session_epoch=0)
        opened = await caller.call(wanted, 16)
        assert opened.session_id and not opened.error_code

        async def codes(epoch: int) -> list[int]:
            again = fetch(session_id=opened.session_id, session_epoch=epoch)
            answer = await caller.call(again, 16)
            return [p.error_code for topic in answer.responses for p in topic.partitions]

        assert await codes(1) == []
        await remove(node, rule(Operation.READ))
        assert await codes(2) == [DENIED, DENIED]
        assert await codes(3) == [DENIED, DENIED]
        await add(node, rule(Operation.READ))
        assert await codes(4) == [0, 0]
        assert await codes(5) == []


@trio_test
async def test_a_fetch_that_waits_is_refused_when_its_right_is_taken_away() -> None:
    async with node_with_topic() as (node, caller, topic_id):
        await add(node, rule(Operation.READ), rule(Operation.WRITE))
        await caller.send(fetch((0, 0), topic_id=topic_id, max_wait_ms=60_000), 16)
        async with caller_of(node) as other:
            await other.call(produce(topic_id, partition=1), 13)
            await remove(node, rule(Operation.READ))
            await other.call(produce(topic_id), 13)
        answer = await caller.receive(1, 16)
        assert answer.responses[0].partitions[0].error_code == DENIED
