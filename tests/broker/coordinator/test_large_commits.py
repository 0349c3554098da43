"""A commit of a thousand offsets is one decision: no reader sees half of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.errors import ErrorCode
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

PARTITIONS = 1000
GROUP = "g"


@asynccontextmanager
async def two_clients() -> AsyncIterator[tuple[Caller, Caller]]:
    """Two clients of a node with the topic and a coordinator of the group."""
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(caller, "t", PARTITIONS)
        wish, error = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 1
        while error:
            error = (await caller.call(wish, 4)).coordinators[0].error_code
        yield caller, other


def commit(offset: int) -> OffsetCommitRequest:
    """A commit of the same offset for every partition."""
    return OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=i, committed_offset=offset)
                    for i in range(PARTITIONS)
                ],
            )
        ],
    )


def bounded(topic: str, bytes_max: str) -> IncrementalAlterConfigsRequest:
    """`max.message.bytes` of a topic."""
    key = AlterableConfig(name="max.message.bytes", config_operation=0, value=bytes_max)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[key])
    return IncrementalAlterConfigsRequest(resources=[resource])


async def committed(caller: Caller) -> set[int]:
    """The offsets that the group has."""
    wish = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    [group] = (await caller.call(wish, 9)).groups
    return {p.committed_offset for topic in group.topics for p in topic.partitions}


@trio_test
async def test_a_large_commit_counts_whole_or_not_at_all() -> None:
    async with two_clients() as (caller, other):
        await caller.call(commit(1), 8)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller.call, commit(2), 8)
            seen = await committed(other)
            while seen != {2}:
                assert seen == {1}
                seen = await committed(other)


@trio_test
async def test_a_commit_beyond_one_batch_is_refused_and_nothing_of_it_is_kept() -> None:
    async with two_clients() as (caller, other):
        await caller.call(commit(1), 8)
        await caller.call(bounded("__consumer_offsets", "10000"), 1)
        answer = await caller.call(commit(2), 8)
        errors = {p.error_code for topic in answer.topics for p in topic.partitions}
        assert errors == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert await committed(other) == {1}
