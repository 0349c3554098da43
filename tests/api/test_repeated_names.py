"""A request that contains a name several times gets one answer for it, with everything that it asks
for. A request of a few bytes could otherwise demand an answer of thousands."""

from __future__ import annotations

from typing import Any

import pytest
from group.brokers import running, simulated

from pk.core.api.configs import describe_configs
from pk.core.broker.requests.context import Context
from pk.core.meta.events import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pk.core.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pk.core.wire.messages.describe_groups import DescribeGroupsRequest
from pk.core.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pk.core.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
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
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

Named = dict[str, list[int]]
"""Topic → indexes of its partitions."""


def resource(kind: int, name: str, *keys: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )


@simulated
async def test_configs() -> None:
    async with running() as test:
        await test.create_topics("t", "u")
        resources = [
            resource(TOPIC, "t", "flush.ms"),
            resource(TOPIC, "u", "flush.ms"),
            resource(TOPIC, "nope"),
            resource(TOPIC, "t", "retention.ms", "flush.ms"),
            resource(TOPIC, "u"),
            resource(TOPIC, "nope"),
            *[resource(BROKER, "1")] * 3,
            *[resource(BROKER_LOGGER, "1", "root")] * 3,
        ]
        answer = await test.ask(DescribeConfigsRequest(resources=resources))
        assert [(r.resource_type, r.resource_name) for r in answer.results] == [
            (TOPIC, "t"),
            (TOPIC, "u"),
            (TOPIC, "nope"),
            (BROKER, "1"),
            (BROKER_LOGGER, "1"),
        ]
        t, u, _, broker, logger = answer.results
        assert [c.name for c in t.configs] == ["flush.ms", "retention.ms"]
        assert len(u.configs) > 10 and len(broker.configs) > 100
        assert [c.name for c in logger.configs] == ["root"]


@simulated
async def test_configs_of_resources_without_any_of_their_own_take_memory_once() -> None:
    async with running() as test:
        await test.create_topics("t", "u", "v")
        change = AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="v",
            configs=[AlterableConfig(name="flush.ms", value="5")],
        )
        changed = await test.ask(IncrementalAlterConfigsRequest(resources=[change]))
        assert changed.responses[0].error_code == 0
        context = Context(test.broker, 32, 4, client_host="/127.0.0.1")
        for kind, names in ((TOPIC, "tuv"), (GROUP, "gh"), (CLIENT_METRICS, "mn")):
            request = DescribeConfigsRequest(resources=[resource(kind, name) for name in names])
            first, second, *own = (await describe_configs.handle(context, request)).results
            assert first.configs and first.configs is second.configs
            assert all(one.configs != first.configs for one in own)


@simulated
async def test_groups() -> None:
    async with running() as test:
        await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        for request in (
            DescribeGroupsRequest(groups=["g", "h", "g", "h"]),
            ConsumerGroupDescribeRequest(group_ids=["g", "h", "g", "h"]),
        ):
            assert [group.group_id for group in (await test.ask(request)).groups] == ["g", "h"]


@simulated
async def test_producers() -> None:
    async with running() as test:
        await test.create_topics("t")
        topics = [
            TopicRequest(name=name, partition_indexes=indexes)
            for name, indexes in (("t", [0, 0, 1, 1]), ("nope", [0, 0]), ("t", [1, 2]))
        ]
        answer = await test.ask(DescribeProducersRequest(topics=topics))
        assert [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics] == [
            ("t", [0, 1]),
            ("nope", [0]),
            ("t", [2]),
        ]


def asked(group: str, topics: Named | None) -> OffsetFetchRequestGroup:
    named = None
    if topics is not None:
        named = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    return OffsetFetchRequestGroup(group_id=group, topics=named)


def found(topics: list[Any]) -> list[tuple[str, list[tuple[int, int]]]]:
    """[(topic, [(partition, offset)])] of an answer."""
    return [
        (topic.name, [(p.partition_index, p.committed_offset) for p in topic.partitions])
        for topic in topics
    ]


@pytest.mark.parametrize("version", [1, 7, 8, 9])
def test_offsets(version: int) -> None:
    @simulated
    async def main() -> None:
        async with running() as test:
            await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
            await test.create_topics("t", "u")
            for group in ("g", "h"):
                topics = [
                    OffsetCommitRequestTopic(
                        name=name, partitions=[OffsetCommitRequestPartition(committed_offset=7)]
                    )
                    for name in ("t", "u")
                ]
                commit = OffsetCommitRequest(group_id=group, topics=topics)
                assert (await test.ask(commit, 9)).topics[0].partitions[0].error_code == 0
            if version < 8:
                named = [
                    OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                    for name, indexes in (("t", [0, 0, 1]), ("u", [0]), ("t", [1, 0, 2]))
                ]
                answer = await test.ask(OffsetFetchRequest(group_id="g", topics=named), version)
                assert found(answer.topics) == [
                    ("t", [(0, 7), (1, -1)]),
                    ("u", [(0, 7)]),
                    ("t", [(2, -1)]),
                ]
                return
            groups = [
                asked("g", {"t": [0, 0, 1]}),
                asked("h", {"t": [0]}),
                asked("g", {"t": [0], "u": [0]}),
                asked("h", None),
                asked("h", None),
                asked("h", {"nope": [0]}),
            ]
            answer = await test.ask(OffsetFetchRequest(groups=groups), version)
            assert [(group.group_id, found(group.topics)) for group in answer.groups] == [
                ("g", [("t", [(0, 7), (1, -1)]), ("t", []), ("u", [(0, 7)])]),
                ("h", [("t", [(0, 7)]), ("u", [(0, 7)])]),
            ]

    main()


@simulated
async def test_offsets_of_share_groups() -> None:
    async with running() as test:
        groups = [
            DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in "ghgh"
        ]
        answer = await test.ask(DescribeShareGroupOffsetsRequest(groups=groups))
        assert [group.group_id for group in answer.groups] == ["g", "h"]
