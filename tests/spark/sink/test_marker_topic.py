"""The topic of the markers of published batches: its replicas."""

from __future__ import annotations

import pytest
from nodes import running_cluster, trio_test

from pk.core.meta.image import MetadataImage
from pk.net.client.cluster import open_cluster
from pk.spark.sink.marker import TOPIC, Markers
from pk.spark.sink.options import parse_sink_options


@pytest.mark.parametrize(
    ("brokers", "default", "replicas"), [(2, 1, 2), (4, 1, 3), (4, 2, 3), (4, 4, 4)]
)
def test_the_topic_has_as_many_replicas_as_kafka_s_own_topics(
    brokers: int, default: int, replicas: int
) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster(brokers, default__replication__factor=str(default)) as cluster:
            seen = cluster.nodes[1].broker
            await seen.purgatory.until(
                lambda: sum(not one.fenced for one in seen.image.brokers.values()) == brokers,
                (MetadataImage,),
                float("inf"),
            )
            options = parse_sink_options({"kafka.bootstrap.servers": cluster.nodes[1].address})
            async with open_cluster(options.bootstrap, options.config) as client:
                for query in ("one", "another"):
                    await Markers(client, options, query).partition()
            topic = cluster.image.topics[TOPIC]
            assert {len(partition.replicas) for partition in topic.partitions} == {replicas}

    run()
