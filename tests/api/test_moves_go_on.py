"""A reassignment is part of the metadata, so it continues under another controller and after all
nodes restart."""

from __future__ import annotations

from typing import Any

import pytest
from many_nodes import CONTROLLER, Cluster, caller, running_cluster
from nodes import Caller, trio_test
from voting_stores import VOTING, address_in

from pk.core.meta.events import BROKER, TOPIC
from pk.core.record.build import build_batch
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pk.core.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RATE = "leader.replication.throttled.rate"
LISTED = "leader.replication.throttled.replicas"
BATCHES = 20
MOVING = [("t", 0, [2, 3, 1], [2, 3], [1])]


async def create(client: Caller) -> None:
    """A topic with a few batches, on broker 1 alone."""
    one = CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[one])
    answer = await client.call(CreateTopicsRequest(topics=[topic]), 7)
    assert answer.topics[0].error_code == 0
    for _ in range(BATCHES):
        data = PartitionProduceData(index=0, records=build_batch([(0, None, bytes(5_000), ())]))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        )
        answer = await client.call(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


async def configure(client: Caller, kind: int, name: str, key: str, value: str) -> None:
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    answer = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0


async def move(client: Caller, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    topic = ReassignableTopic(name="t", partitions=[partition])
    answer = await client.call(AlterPartitionReassignmentsRequest(topics=[topic]), 1)
    assert answer.responses[0].partitions[0].error_code == 0


async def listed(cluster: Cluster, node: int) -> list[Any]:
    """The ongoing reassignments in the answer to a client of a broker."""
    async with caller(cluster, node) as client:
        answer = await client.call(ListPartitionReassignmentsRequest(timeout_ms=30_000), 0)
    assert answer.error_code == 0
    return [
        (t.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for t in answer.topics
        for p in t.partitions
    ]


def held(cluster: Cluster, node: int) -> int:
    """How much of the log a broker has."""
    partition = cluster.nodes[node].broker.data.replicas.find("t", 0)
    return 0 if partition is None else partition.log.state.log_end_offset


@pytest.mark.parametrize("store", ["embedded", *VOTING])
def test_a_reassignment_survives_a_change_of_controller_and_a_restart_of_everything(
    store: str, request: pytest.FixtureRequest
) -> None:
    keys = {"replica__fetch__max__bytes": "1000"}
    if store != "embedded":
        keys["pk__metadata__store"] = address_in(store, request)

    @trio_test
    async def run() -> None:
        async with running_cluster(3, **keys) as cluster:
            async with caller(cluster, 1) as client:
                await create(client)
                await configure(client, BROKER, "", RATE, "1")
                await configure(client, TOPIC, "t", LISTED, "*")
                await move(client, 2, 3)
            # The quota is used up by the first piece, whichever replica gets it.
            await cluster.until(lambda: held(cluster, 2) + held(cluster, 3) > 0)
            assert await listed(cluster, 3) == MOVING

            first = cluster.controller_id
            await cluster.kill(first)
            if store != "embedded":
                asked = next(iter(cluster.nodes))
                assert await listed(cluster, asked) == MOVING
                assert cluster.controller_id != first
                await cluster.start(first)
            else:
                for node in list(cluster.nodes):
                    await cluster.kill(node)
                for node in (CONTROLLER, 1, 2, 3):
                    await cluster.start(node)
            assert await listed(cluster, 2) == MOVING
            assert min(held(cluster, 2), held(cluster, 3)) < BATCHES, "else nothing was left to do"

            async with caller(cluster, 3) as client:
                await configure(client, BROKER, "", RATE, "1000000000")
            await cluster.until(lambda: cluster.image.topics["t"].partitions[0].replicas == (2, 3))
            assert await listed(cluster, 1) == []
            assert set(cluster.image.topics["t"].partitions[0].isr) == {2, 3}
            await cluster.until(lambda: held(cluster, 2) == held(cluster, 3) == BATCHES)

    run()
