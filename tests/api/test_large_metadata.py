"""Answers about thousands of partitions are made in threads, and are the same as small ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.api.metadata import LARGE_PARTITIONS, handle
from pk.core.api.registry import Large
from pk.core.broker.requests.just_fenced import JustFenced
from pk.core.meta.image import MetadataImage, TopicImage
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

MANY = LARGE_PARTITIONS + 1


class Watched(dict[str, TopicImage]):
    """Topics that note which thread goes through them one by one."""

    seen_in: threading.Thread | None = None

    def values(self) -> Any:
        def each() -> Iterator[TopicImage]:
            for topic in list(dict.values(self)):
                self.seen_in = threading.current_thread()
                yield topic

        return each()


@pytest.mark.parametrize("partitions", [1, MANY])
def test_a_large_answer_is_made_in_a_thread(partitions: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "t", partitions)
            image: MetadataImage = node.broker.image
            topics = Watched(image.topics)
            context: Any = SimpleNamespace(
                api_version=12,
                listener="PLAINTEXT",
                broker=SimpleNamespace(
                    image=replace(image, topics=topics),
                    node_id=1,
                    authorization=node.broker.authorization,
                    config=node.broker.config,
                    lost_leaders=SimpleNamespace(wait_for_verdict=trio.lowlevel.checkpoint),
                    just_fenced=JustFenced(),
                    topics_on_demand=node.broker.topics_on_demand,
                ),
            )
            result: Any = handle(context, MetadataRequest(topics=None))
            if partitions == 1:
                assert len(result.topics) == 1, "there is nothing to wait for"
            else:
                result = await result
                assert isinstance(result, Large) and len(result.response.topics) == 1
                assert topics.seen_in is not threading.main_thread()

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
