"""The controller's own changes: leadership returns to preferred replicas, and offline partitions
get a leader if a config allows it."""

from __future__ import annotations

import trio
from many_nodes import Cluster, caller, running_cluster
from nodes import Caller, trio_test

from pk.core.meta.image import PartitionImage
from pk.core.values import NO_LEADER
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

UNCLEAN = "unclean.leader.election.enable"


async def assigned(client: Caller, name: str, *nodes: int) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(nodes))
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    answer = await client.call(CreateTopicsRequest(topics=[topic]), 7)
    assert answer.topics[0].error_code == 0


async def configure(client: Caller, kind: int, name: str, key: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, value=value)]
    )
    answer = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer


def partition(cluster: Cluster, name: str) -> PartitionImage:
    return cluster.image.topics[name].partitions[0]


@trio_test
async def test_leadership_goes_back_to_the_preferred_replica() -> None:
    keys = {"leader__imbalance__check__interval__seconds": "1"}
    async with running_cluster(2, **keys) as cluster, caller(cluster, 1) as client:
        await assigned(client, "t", 2, 1)
        await cluster.kill(2)
        await cluster.until(lambda: partition(cluster, "t").leader == 1)
        await cluster.start(2)
        await cluster.until(lambda: partition(cluster, "t").leader == 2)
        assert set(partition(cluster, "t").isr) == {1, 2}, "not before it was in sync"


@trio_test
async def test_it_stays_where_nobody_balances() -> None:
    keys = {
        "leader__imbalance__check__interval__seconds": "1",
        "auto__leader__rebalance__enable": "false",
    }
    async with running_cluster(2, **keys) as cluster, caller(cluster, 1) as client:
        await assigned(client, "t", 2, 1)
        await cluster.kill(2)
        await cluster.until(lambda: partition(cluster, "t").leader == 1)
        await cluster.start(2)
        await cluster.until(lambda: len(partition(cluster, "t").isr) == 2)
        with trio.move_on_after(2.2):  # two rounds of the one that would balance
            await cluster.until(lambda: partition(cluster, "t").leader != 1)
        assert partition(cluster, "t").leader == 1


@trio_test
async def test_a_config_that_allows_it_elects_at_once() -> None:
    async with running_cluster(3) as cluster, caller(cluster, 3) as client:
        for name in ("by-topic", "by-broker"):
            await assigned(client, name, 1, 2)
        # The second goes out of sync before the first, so that only the first has everything.
        for node in (2, 1):
            await cluster.kill(node)
            await cluster.until(lambda node=node: cluster.image.brokers[node].fenced)
        await cluster.start(2)
        for name in ("by-topic", "by-broker"):
            assert partition(cluster, name).leader == NO_LEADER
        await configure(client, 2, "by-topic", UNCLEAN, "true")
        await cluster.until(lambda: partition(cluster, "by-topic").leader == 2)
        assert partition(cluster, "by-broker").leader == NO_LEADER
        await configure(client, 4, "", UNCLEAN, "true")
        await cluster.until(lambda: partition(cluster, "by-broker").leader == 2)
