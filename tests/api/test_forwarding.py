"""A client's request when the controller dies at the wrong moment: the outcome is unknown, and the
client gets that error. The request is not sent twice, so no client gets the result of another one's
request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from group.brokers import running, simulated
from many_nodes import CONTROLLER, Cluster, caller, running_cluster
from nodes import Caller, trio_test

from pk.core.api.controller.forward import IMAGE_WAIT_MS_MAX, forward_to_controller
from pk.core.broker.controller.controller_client import Forwarded
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.meta.events import TOPIC
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pk.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest

TIMEOUT_MS = 20_000


def create(name: str, partitions: int = 2, **options: Any) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="5000")],
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, **options)


def die_after(cluster: Cluster, done: Callable[[MetadataImage], bool]) -> None:
    """Have the controller die when it has committed something, before it can say so to anybody."""
    controller = cluster.controller.broker.cluster.controller
    assert controller is not None

    def follow(before: MetadataImage, image: MetadataImage) -> None:
        if done(image) and not done(before):
            cluster.scopes[CONTROLLER].cancel()

    controller.commit_listeners.append(follow)


async def through_a_death(
    cluster: Cluster, client: Caller, request: Any, version: int, done: Any
) -> Any:
    """The answer to a request of which the controller dies, and comes back."""
    die_after(cluster, done)
    await client.send(request, version)
    await cluster.ended[CONTROLLER].wait()
    await cluster.start(CONTROLLER)
    return await client.receive(request.API_KEY, version)


@trio_test
async def test_what_became_of_a_topic_whose_controller_died_is_not_known() -> None:
    async with running_cluster(1) as cluster, caller(cluster, 1) as client:
        answer = await through_a_death(
            cluster, client, create("t"), 7, lambda image: "t" in image.topics
        )
        assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert answer.topics[0].error_message
        assert "t" in cluster.image.topics, "it happened"
        again = (await client.call(create("t"), 7)).topics[0]
        assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        ordinary = (await client.call(create("u"), 7)).topics[0]
        assert ordinary.error_code == 0 and "u" in cluster.nodes[1].broker.image.topics


@pytest.mark.parametrize("survives", [True, False])
def test_two_clients_never_both_hear_that_they_made_a_topic(survives: bool) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster(2) as cluster:
            if not survives:
                die_after(cluster, lambda image: "t" in image.topics)
            codes: list[int] = []

            async def ask(node: int) -> None:
                async with caller(cluster, node) as client:
                    codes.append((await client.call(create("t"), 7)).topics[0].error_code)

            async with trio.open_nursery() as nursery:
                for node in (1, 2, 1, 2):
                    nursery.start_soon(ask, node)
                if not survives:
                    await cluster.ended[CONTROLLER].wait()
                    await cluster.start(CONTROLLER)
            others = {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT}
            assert codes.count(0) == (1 if survives else 0)
            assert {code for code in codes if code} <= others
            assert "t" in cluster.image.topics

    run()


@pytest.mark.parametrize("by_id", [False, True])
def test_what_became_of_a_deletion_whose_controller_died_is_not_known(by_id: bool) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster(1) as cluster, caller(cluster, 1) as client:
            topic_id = (await client.call(create("t"), 7)).topics[0].topic_id
            state = DeleteTopicState(name=None, topic_id=topic_id) if by_id else None
            request = DeleteTopicsRequest(
                topics=[state or DeleteTopicState(name="t")], timeout_ms=TIMEOUT_MS
            )
            answer = await through_a_death(
                cluster, client, request, 6, lambda image: "t" not in image.topics
            )
            assert answer.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
            again = (await client.call(request, 6)).responses[0]
            assert again.error_code in (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
            )

    run()


@trio_test
async def test_partitions_and_cancelled_moves_and_brokers_that_go() -> None:
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    async with running_cluster(2) as cluster, caller(cluster, 1) as client:
        await client.call(create("t"), 7)
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t", count=4, assignments=None)],
            timeout_ms=TIMEOUT_MS,
        )
        answer = await through_a_death(
            cluster, client, more, 3, lambda image: len(image.topics["t"].partitions) == 4
        )
        assert answer.results[0].error_code == timed_out
        answer = await client.call(more, 3)
        assert answer.results[0].error_code == ErrorCode.INVALID_PARTITIONS

        # A move to a missing broker is never complete, and is cancelled.
        await cluster.kill(2)
        await cluster.until(lambda: cluster.image.brokers[2].fenced)

        def move(number: int, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
            partition = ReassignablePartition(partition_index=number, replicas=replicas)
            return AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name="t", partitions=[partition])], timeout_ms=TIMEOUT_MS
            )

        mine = [p for p in cluster.image.topics["t"].partitions if p.replicas == (1,)]
        number = mine[0].partition
        answer = await client.call(move(number, [2]), 1)
        assert answer.responses[0].partitions[0].error_code == 0
        answer = await through_a_death(
            cluster,
            client,
            move(number, None),
            1,
            lambda image: not image.topics["t"].partitions[number].adding,
        )
        assert answer.error_code == timed_out
        answer = await through_a_death(
            cluster,
            client,
            UnregisterBrokerRequest(broker_id=2),
            0,
            lambda image: 2 not in image.brokers,
        )
        assert answer.error_code == timed_out


@trio_test
async def test_requests_wait_for_a_controller_that_is_away() -> None:
    async with running_cluster(1) as cluster:
        await cluster.kill(CONTROLLER)
        requests = [
            (create("t"), 7),
            (InitProducerIdRequest(transactional_id=None), 5),
        ]
        asked_for = MetadataRequest(topics=[MetadataRequestTopic(name="asked-for")])
        answers: dict[int, Any] = {}

        async def ask(request: Any, version: int) -> None:
            async with caller(cluster, 1) as client:
                answers[request.API_KEY] = await client.call(request, version)

        async with trio.open_nursery() as nursery:
            for request, version in requests:
                nursery.start_soon(ask, request, version)
            # Each is on its way when the controller comes.
            await trio.sleep(0.1)
            assert not answers
            async with caller(cluster, 1) as client:
                unknown = await client.call(asked_for, 12)
            assert unknown.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await cluster.start(CONTROLLER)
        assert answers[19].topics[0].error_code == 0
        assert answers[22].error_code == 0
        await cluster.until(lambda: "asked-for" in cluster.nodes[1].broker.image.topics)


@trio_test
async def test_without_a_controller_the_time_runs_out() -> None:
    async with running_cluster(1) as cluster, caller(cluster, 1) as client:
        await cluster.kill(CONTROLLER)
        request = create("t")
        request.timeout_ms = 1
        started = trio.current_time()
        answer = await client.call(request, 7)
        assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "cannot be reached" in answer.topics[0].error_message
        assert trio.current_time() - started < 10


@trio_test
async def test_a_change_of_any_kind_is_in_the_image_of_the_broker_that_passed_it_on() -> None:
    async with running_cluster(1) as cluster, caller(cluster, 1) as client:
        await client.call(create("t"), 7)
        broker = cluster.nodes[1].broker
        for value in ("1", "2", "3"):
            change = AlterableConfig(name="retention.ms", value=value)
            resource = AlterConfigsResource(
                resource_type=TOPIC, resource_name="t", configs=[change]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource])
            answer = await client.call(request, 1)
            assert answer.responses[0].error_code == 0
            assert broker.image.topic_configs("t")["retention.ms"] == value


@simulated
async def test_an_answer_waits_for_the_image_but_not_for_ever() -> None:
    async with running() as test:
        broker = test.broker
        behind = broker.image.offset + 1

        class Link:
            async def request(self, request: Any, *, timeout_ms: float) -> Any:
                raise AssertionError("a client asks")

            async def forward(self, client: Any, request: Any, *, timeout_ms: float) -> Forwarded:
                return Forwarded(CreateTopicsResponse(), behind)

        broker.cluster.controller_client = Link()
        answered = trio.Event()

        async def ask() -> None:
            await forward_to_controller(Context(broker), create("t"))
            answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert not answered.is_set()
            await test.create_topics("anything")
            await answered.wait()
        behind = broker.image.offset + 1
        started = trio.current_time()
        await forward_to_controller(Context(broker), create("t"))
        assert trio.current_time() - started == pytest.approx(IMAGE_WAIT_MS_MAX / 1000)
