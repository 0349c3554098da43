"""Answers about thousands of partitions are made in turns, and are the same as small ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.api.topics.metadata import LARGE_PARTITIONS, handle
from pk.core.broker.requests.just_fenced import JustFenced
from pk.core.meta.image import MetadataImage
from pk.core.turns import AT_ONCE
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

MANY = LARGE_PARTITIONS + 5 * AT_ONCE


@pytest.mark.parametrize("partitions", [1, MANY])
def test_a_large_answer_is_made_in_turns_from_one_image(partitions: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "t", partitions)
            broker = SimpleNamespace(
                image=node.broker.image,
                node_id=1,
                authorization=node.broker.authorization,
                config=node.broker.config,
                lost_leaders=SimpleNamespace(wait_for_verdict=trio.lowlevel.checkpoint),
                just_fenced=JustFenced(),
                topics_on_demand=node.broker.topics_on_demand,
            )
            context: Any = SimpleNamespace(api_version=12, listener="PLAINTEXT", broker=broker)
            result: Any = handle(context, MetadataRequest(topics=None))
            if partitions == 1:
                assert len(result.topics) == 1, "there is nothing to wait for"
                return
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    await trio.lowlevel.checkpoint()
                    turns += 1
                    if turns == partitions // AT_ONCE // 2:
                        broker.image = MetadataImage()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(others)
                result = await result
                nursery.cancel_scope.cancel()
            [topic] = result.topics
            assert [p.partition_index for p in topic.partitions] == list(range(partitions))
            assert turns >= partitions // AT_ONCE

    run()


def test_a_large_answer_says_the_same_as_a_small_one() -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "many", MANY)
            named = MetadataRequest(topics=[MetadataRequestTopic(name="many")])
            for version in range(14):
                everything = await caller.call(
                    MetadataRequest(topics=None if version else []), version
                )
                (topic,) = everything.topics
                assert [p.partition_index for p in topic.partitions] == list(range(MANY))
                assert everything == await caller.call(named, version)

    run()
