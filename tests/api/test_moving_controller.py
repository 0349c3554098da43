"""Brokers that take turns as the controller, by etcd or ZooKeeper: the next controller answers the
requests to the old one."""

from __future__ import annotations

from typing import Any

import trio
from many_nodes import Cluster, caller, running_cluster
from nodes import trio_test

from pk.core.broker.controller.controller import Controller
from pk.core.errors import ErrorCode
from pk.core.meta.image import MetadataImage
from pk.core.values import METADATA_TOPIC
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.metadata import MetadataRequest

QUORUM = DescribeQuorumRequest(
    topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
)


def controller_of(cluster: Cluster) -> Controller:
    controller = cluster.controller.broker.cluster.controller
    assert controller is not None
    return controller


def create(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=2)
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


async def quorum(cluster: Cluster, node: int) -> Any:
    async with caller(cluster, node) as client:
        answer = await client.call(QUORUM, 2)
    assert answer.error_code == 0
    return answer


def test_the_next_controller_answers_for_the_last(voting_store: str) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster(3, pk__metadata__store=voting_store) as cluster:
            first = cluster.controller_id
            epoch = controller_of(cluster).epoch
            others = [node for node in (1, 2, 3) if node != first]
            # Each makes itself known in the background, once it serves.
            known = cluster.nodes[others[0]].broker
            await cluster.until(lambda: sorted(known.image.controllers) == [1, 2, 3])
            answer = await quorum(cluster, others[0])
            data = answer.topics[0].partitions[0]
            assert data.leader_id == first and data.observers == []
            assert [v.replica_id for v in data.current_voters] == [1, 2, 3]
            assert [n.node_id for n in answer.nodes] == [1, 2, 3]

            def follow(before: MetadataImage, image: MetadataImage) -> None:
                if "t" in image.topics and "t" not in before.topics:
                    cluster.scopes[first].cancel()

            controller_of(cluster).commit_listeners.append(follow)
            async with caller(cluster, others[0]) as client:
                await client.send(create("t"), 7)
                await cluster.ended[first].wait()
                del cluster.nodes[first]
                answer = await client.receive(19, 7)
                assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT, answer
                answer = await client.call(MetadataRequest(topics=[]), 12)
            await cluster.until(lambda: cluster.controller_id in others)
            second = controller_of(cluster)
            assert second.epoch > epoch
            assert list(second.image.topics["t"].partitions) != []
            await cluster.until(lambda: second.image.brokers[first].fenced)
            async with caller(cluster, others[1]) as client:
                answer = await client.call(InitProducerIdRequest(transactional_id=None), 5)
                assert answer.error_code == 0
                answer = await client.call(create("u"), 7)
                assert answer.topics[0].error_code == 0
            # The old one comes back, follows, and may be the controller again.
            await cluster.start(first)
            answer = await quorum(cluster, first)
            assert answer.topics[0].partitions[0].leader_id == cluster.controller_id != first

    run()


def test_a_controller_whose_session_ends_makes_room(voting_store: str) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster(2, pk__metadata__store=voting_store) as cluster:
            first = cluster.controller_id
            old = controller_of(cluster)
            # Its store does this when it can no longer guarantee the session.
            old._store.lost[0](old.epoch, "the session is over")
            assert not old.active
            async with caller(cluster, first) as client, trio.open_nursery() as nursery:
                answers: list[Any] = []

                async def ask(name: str) -> None:
                    async with caller(cluster, first) as one:
                        answers.append(await one.call(create(name), 7))

                for name in "abc":
                    nursery.start_soon(ask, name)
                answer = await client.call(create("t"), 7)
                assert answer.topics[0].error_code == 0
            assert [a.topics[0].error_code for a in answers] == [0, 0, 0]
            await cluster.until(lambda: controller_of(cluster).epoch > 1)
            images = [node.broker.image for node in cluster.nodes.values()]
            await cluster.until(
                lambda: all(
                    n.broker.image.topics.keys() >= set("abct") for n in cluster.nodes.values()
                )
            )
            assert {image.cluster_id for image in images} == {cluster.image.cluster_id}

    run()
