"""A topic on the brokers of a cluster in this process: creating it, writing to it, inspecting
it."""

from __future__ import annotations

import trio
from nodes import Caller, Cluster, caller_of

from pk.core.errors import ErrorCode
from pk.core.meta.image import MetadataImage, PartitionImage
from pk.core.record.build import build_batch
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.net.node import Node


async def make_replicated(cluster: Cluster, name: str, partitions: int = 1) -> None:
    """Creates a topic on three brokers with min.insync.replicas 2. Returns when all three have
    it."""
    async with caller_of(cluster.nodes[1]) as caller:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=3,
                    configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
                )
            ],
            timeout_ms=60_000,
        )
        answer = await caller.call(request, 7)
        assert answer.topics[0].error_code == 0, answer
    for node_id in (1, 2, 3):
        await holds(cluster.nodes[node_id], name, partitions)


async def holds(node: Node, topic: str, partitions: int) -> None:
    """Wait until a broker holds all of the topic's partitions."""
    replicas, deadline = node.broker.data.replicas, trio.current_time() + 60
    assert await node.broker.purgatory.until(
        lambda: all(replicas.find(topic, n) is not None for n in range(partitions)),
        (MetadataImage,),
        deadline,
    )


def state(cluster: Cluster, topic: str = "t", partition: int = 0) -> PartitionImage:
    found = cluster.image.partition(topic, partition)
    assert found is not None
    return found


async def produce(cluster: Cluster, value: bytes, acks: int = -1, topic: str = "t") -> int:
    """Produce like a client, and retry if the broker does not lead. Returns the record's offset."""
    while True:
        leader = state(cluster, topic).leader
        if leader in cluster.nodes:
            try:
                async with caller_of(cluster.nodes[leader]) as caller:
                    code, offset = await produce_once(caller, topic, value, acks)
            except (OSError, EOFError, trio.BrokenResourceError):
                code, offset = ErrorCode.NETWORK_EXCEPTION, -1
            if code == ErrorCode.NONE:
                return offset
            assert code in (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.NETWORK_EXCEPTION,
                ErrorCode.NOT_ENOUGH_REPLICAS,
            ), code
        await trio.sleep(0.01)


async def produce_once(caller: Caller, topic: str, value: bytes, acks: int) -> tuple[int, int]:
    """One request. Returns its error code and the record's offset."""
    batch = build_batch([(1_700_000_000_000, None, value, ())])
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        acks=acks, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    answer = (await caller.call(request, 9)).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


async def in_sync(cluster: Cluster, count: int, topic: str = "t") -> None:
    with trio.fail_after(60):
        await cluster.until(
            lambda image: all(len(p.isr) == count for p in image.topics[topic].partitions)
        )


async def agree(cluster: Cluster, end: int, topic: str = "t") -> None:
    """Waits until every running broker has the log up to `end`, and lets readers see it."""
    for node_id, node in cluster.nodes.items():
        if node_id != cluster.CONTROLLER:
            partition = node.broker.data.replicas.partition(topic, 0)
            with trio.fail_after(60):
                while (partition.log.state.log_end_offset, partition.high_watermark) != (end, end):  # noqa: ASYNC110
                    await trio.sleep(0.005)
