"""A coordinator that decides about thousands of things in turns: no reader sees it half way, and
no caller waits for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.broker.coordinator.coordinator import Coordinator
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.machine import Decision
from pk.core.turns import AT_ONCE, Turns
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

PARTITIONS = 4 * AT_ONCE
GROUP = "g"


class World:
    def __init__(self, caller: Caller, other: Caller, coordinator: Coordinator[GroupMachine]):
        self.caller = caller
        self.other = other
        self.coordinator = coordinator
        self.paused = trio.Event()
        self.go_on = False

    def decide_long(self, machine: GroupMachine, _: object, now_ms: int) -> Turns[Decision[Any]]:
        """A decision that takes as many turns as the test likes."""
        while not self.go_on:
            self.paused.set()
            yield
        return Decision(reply="done")


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with running_node() as node, caller_of(node) as caller, caller_of(node) as other:
        await make_topic(caller, "t", PARTITIONS)
        wish, error = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 1
        while error:
            error = (await caller.call(wish, 4)).coordinators[0].error_code
        found = World(caller, other, node.broker.coordinators.coordinator(GROUP))
        yield found
        found.go_on = True


def commit(offset: int) -> OffsetCommitRequest:
    """Of every partition, the same offset."""
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
    async with world() as w:
        await w.caller.call(commit(1), 8)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(w.caller.call, commit(2), 8)
            seen = await committed(w.other)
            while seen != {2}:
                assert seen == {1}
                seen = await committed(w.other)


@trio_test
async def test_a_commit_beyond_one_batch_is_refused_and_nothing_of_it_is_kept() -> None:
    async with world() as w:
        await w.caller.call(commit(1), 8)
        await w.caller.call(bounded("__consumer_offsets", "10000"), 1)
        answer = await w.caller.call(commit(2), 8)
        errors = {p.error_code for topic in answer.topics for p in topic.partitions}
        assert errors == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert await committed(w.other) == {1}


@trio_test
async def test_others_stand_in_line_and_are_decided_in_order() -> None:
    async with world() as w:
        order: list[str] = []
        answers: dict[str, str] = {}

        def short(name: str) -> Any:
            def decide(machine: GroupMachine, _: object, now_ms: int) -> Decision[Any]:
                order.append(name)
                return Decision(reply=name)

            return decide

        async def ask(name: str, decide: Any, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            answer = w.coordinator.submit(decide)
            task_status.started()
            answers[name] = await answer

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "long", w.decide_long)
            await w.paused.wait()
            for name in ("second", "third"):
                await nursery.start(ask, name, short(name))
            with pytest.raises(KafkaError) as refused:
                w.coordinator.append_marker(1, 0, 0, committed=True)
            assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert not order
            w.go_on = True
            await w.coordinator.wait_until_free()
        assert order == ["second", "third"]
        assert answers == {"long": "done", "second": "second", "third": "third"}


@trio_test
async def test_a_coordinator_that_ends_sends_the_line_elsewhere() -> None:
    async with world() as w:
        codes: list[int] = []

        async def ask(decide: Any, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            answer = w.coordinator.submit(decide)
            task_status.started()
            with pytest.raises(KafkaError) as refused:
                await answer
            codes.append(refused.value.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, w.decide_long)
            await w.paused.wait()
            await nursery.start(ask, lambda machine, token, now_ms: Decision(reply="never"))
            w.coordinator.close()
        assert codes == [ErrorCode.NOT_COORDINATOR] * 2
