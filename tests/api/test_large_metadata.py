"""Answers about many partitions are made while others run, and are the same as small ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.api.topics.metadata import LARGE_PARTITIONS, handle
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

MANY = LARGE_PARTITIONS + 100


def test_a_large_answer_is_made_from_one_image() -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "t", MANY)
            broker = SimpleNamespace(
                image=node.broker.image,
                node_id=1,
                authorization=node.broker.authorization,
                config=node.broker.config,
                cluster=node.broker.cluster,
            )
            context: Any = SimpleNamespace(api_version=12, listener="PLAINTEXT", broker=broker)

            async def delete_all() -> None:
                """The first time that the handler lets others run."""
                broker.image = MetadataImage()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(delete_all)
                wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
                answer = await handle(context, wanted)
            [topic] = answer.topics
            assert [p.partition_index for p in topic.partitions] == list(range(MANY))

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
