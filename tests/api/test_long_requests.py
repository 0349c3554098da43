"""A request that names thousands of things lets others have the loop meanwhile, whatever it names
them in.

The longest step that the broker makes for it, counted in calls of functions and not in seconds, is
about as long for 6,000 things as for 2,000. Turns are shortened as much as these requests are
shorter than those that would show the same with turns as they are.
"""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from large_requests import Names, Path, kinds, large, name_of
from loop_steps import counted
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core import turns
from pk.core.api.configs import list_config_resources
from pk.core.api.controller.forward import shows
from pk.core.api.registry import Holding
from pk.core.broker.pauses import let_go
from pk.core.config.views import STANDARD_AUTHORIZER
from pk.core.meta.events import BROKER, BROKER_LOGGER, GROUP, TOPIC
from pk.core.meta.image import MetadataImage
from pk.core.turns import AT_ONCE, FREED_AT_ONCE, Pace
from pk.core.wire.elements import has_many
from pk.core.wire.header import frame_request
from pk.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
)
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from pk.core.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from pk.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.list_config_resources import ListConfigResourcesRequest
from pk.core.wire.messages.pk_unclean_recovery import PkUncleanRecoveryRequest
from pk.core.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from pk.core.wire.schema import Request
from pk.net.connection import connection

SHORTENED = 8
FEW, MANY = 2 * FREED_AT_ONCE // SHORTENED, 6 * FREED_AT_ONCE // SHORTENED
GROWTH = 1.75
"""A step that does everything grows threefold. What goes on by itself may fall into the same step
as a turn."""


_OF_AN_OPERATOR = frozenset({PkUncleanRecoveryRequest.API_KEY})
"""Requests that a person makes, about partitions that wait for one."""


async def prepare(caller: Caller) -> Names:
    topic_id = await make_topic(caller, "t", 16)
    for kind in (0, 1):
        error = 1
        while error:
            wish = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"])
            error = (await caller.call(wish, 4)).coordinators[0].error_code
    return Names("t", topic_id, 16, "g")


async def longest_step(caller: Caller, request: Any, version: int) -> int:
    """The calls in the longest step that is made for a request."""
    frame = frame_request(request, version, 1, "test")
    with counted() as steps:
        await caller.stream.send_all(frame)
        await caller.receive_frame()
        await trio.testing.wait_all_tasks_blocked(0.01)
    return steps.longest


@pytest.fixture
def decoded_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LARGE_BYTES", 1 << 10)
    monkeypatch.setattr(connection, "DECODED_AT_ONCE", connection.DECODED_AT_ONCE // SHORTENED)


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = {name: getattr(turns, name) // SHORTENED for name in ("AT_ONCE", "FREED_AT_ONCE")}
    monkeypatch.setattr(Pace.__init__, "__defaults__", (shorter["AT_ONCE"],))
    for module in list(sys.modules.values()):
        for name, size in shorter.items():
            if getattr(module, name, None) == getattr(turns, name) and module is not turns:
                monkeypatch.setattr(module, name, size)
    for name, size in shorter.items():
        monkeypatch.setattr(turns, name, size)


@pytest.mark.usefixtures("decoded_as_large", "short_turns")
@pytest.mark.parametrize("kind", kinds(_OF_AN_OPERATOR), ids=name_of)
def test_the_longest_step_does_not_grow(kind: tuple[type[Request[Any]], int, Path]) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            names = await prepare(caller)
            few, many = [
                await longest_step(caller, large(*kind, count, names).request, kind[1])
                for count in (FEW, MANY)
            ]
        assert many <= few * GROWTH

    run()


@pytest.mark.usefixtures("decoded_as_large", "short_turns")
@pytest.mark.parametrize("kind", kinds(), ids=name_of)
def test_nor_does_it_for_those_who_may_nothing(
    kind: tuple[type[Request[Any]], int, Path],
) -> None:
    @trio_test
    async def run() -> None:
        async with (
            running_node(authorizer__class__name=STANDARD_AUTHORIZER) as node,
            caller_of(node) as caller,
        ):
            names = Names("t", bytes(range(16)), 16, "g")
            few, many = [
                await longest_step(caller, large(*kind, count, names).request, kind[1])
                for count in (FEW, MANY)
            ]
        assert many <= few * GROWTH

    run()


def test_a_look_for_what_was_made_takes_turns() -> None:
    count = 5 * AT_ONCE
    names = [f"u{n}" for n in range(count)]
    looks = (
        (
            AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in names]
            ),
            AlterUserScramCredentialsResponse(
                results=[
                    AlterUserScramCredentialsResult(user=name, error_code=91) for name in names
                ]
            ),
        ),
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=2) for name in names]
            ),
            CreatePartitionsResponse(
                results=[CreatePartitionsTopicResult(name=name, error_code=3) for name in names]
            ),
        ),
        (
            DeleteTopicsRequest(),
            DeleteTopicsResponse(responses=[DeletableTopicResult(name=name) for name in names]),
        ),
    )
    for request, response in looks:
        look = shows(request, response, MetadataImage())
        pauses = 0
        with pytest.raises(StopIteration) as shown:
            while True:
                next(look)
                pauses += 1
        assert shown.value.value is True
        assert pauses >= count // AT_ONCE, type(request).__name__


@pytest.mark.usefixtures("decoded_as_large", "short_turns")
@pytest.mark.parametrize("session_epoch", [-1, 0])
@pytest.mark.parametrize("max_wait_ms", [0, 1])
def test_a_fetch_of_many_topics(max_wait_ms: int, session_epoch: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await prepare(caller)
            steps: list[int] = []
            for count in (FEW, MANY):
                topics = [
                    FetchTopic(topic="t", partitions=[FetchPartition(partition=i % 16)])
                    for i in range(count)
                ]
                request = FetchRequest(
                    session_epoch=session_epoch,
                    max_wait_ms=max_wait_ms,
                    min_bytes=1,
                    max_bytes=1 << 20,
                    topics=topics,
                )
                steps.append(await longest_step(caller, request, 12))
        assert steps[1] <= steps[0] * GROWTH

    run()


# --- small requests about much that exists ---


@pytest.mark.usefixtures("short_turns")
def test_the_longest_step_does_not_grow_with_what_exists() -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await prepare(caller)
            steps: list[int] = []
            for count in (64, 192):
                topics = [DescribeConfigsResource(resource_type=TOPIC, resource_name="t")] * count
                request = DescribeConfigsRequest(resources=topics, include_synonyms=True)
                steps.append(await longest_step(caller, request, 4))
        assert steps[1] <= steps[0] * GROWTH

    run()


def test_what_has_configs_is_listed_in_turns() -> None:
    @trio_test
    async def run() -> None:
        names = [f"t{n:04}" for n in range(5 * AT_ONCE)]
        image: Any = SimpleNamespace(
            topics=dict.fromkeys(reversed(names)),
            brokers={10: None, 2: None},
            configs={(kind, name): {} for kind in (GROUP, TOPIC) for name in reversed(names)},
        )
        context: Any = SimpleNamespace(api_version=1, broker=SimpleNamespace(image=image))
        result: Any = list_config_resources.handle(context, ListConfigResourcesRequest())
        assert isinstance(result, Holding)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            result = await result.work
            nursery.cancel_scope.cancel()
        found = [(r.resource_type, r.resource_name) for r in result.response.config_resources]
        expected = [(TOPIC, name) for name in names]
        expected += [(kind, node) for kind in (BROKER, BROKER_LOGGER) for node in ("2", "10")]
        assert found == expected + [(GROUP, name) for name in names]
        assert turns > len(names) // AT_ONCE

    run()


@trio_test
async def test_a_member_of_a_streams_group_with_many_tasks_is_told_them() -> None:
    """The answer is at hand, and large."""
    async with (
        running_node(group__streams__initial__rebalance__delay__ms="0") as node,
        caller_of(node) as caller,
    ):
        await prepare(caller)
        partitions = AT_ONCE - 1
        for topic in "ab":
            await make_topic(caller, topic, partitions)
        request = StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=10_000,
            topology=Topology(
                epoch=1,
                subtopologies=[
                    Subtopology(subtopology_id=topic, source_topics=[topic]) for topic in "ab"
                ],
            ),
            process_id="p",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            client_tags=[],
        )
        tasks: dict[str, int] = {}
        while not tasks:
            answer = await caller.call(request, 0)
            assert answer.error_code == 0
            tasks = {one.subtopology_id: len(one.partitions) for one in answer.active_tasks}
        assert tasks == {"a": partitions, "b": partitions}


class Kept(FetchTopic):
    """A topic that a weak reference can watch."""

    __slots__ = ("__weakref__",)


def test_what_is_let_go_is_freed_and_what_others_use_is_not_touched() -> None:
    @trio_test
    async def run() -> None:
        in_use = [FetchPartition(partition=i) for i in range(2 * FREED_AT_ONCE)]
        died = Kept(topic="t", partitions=in_use)
        watch = weakref.ref(died)
        messages = [FetchRequest(topics=[died])]
        del died
        await let_go(messages)
        assert watch() is None and not messages
        assert [p.partition for p in in_use] == list(range(2 * FREED_AT_ONCE))

    gc.disable()
    try:
        run()
    finally:
        gc.enable()


def test_how_many_elements_a_message_has() -> None:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition()] * 3) for _ in range(2)]
    request = FetchRequest(topics=topics)
    assert has_many(request, 7) and not has_many(request, 8)
