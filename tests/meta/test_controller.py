"""Beginnings, and topics that are made when they are first needed."""

from __future__ import annotations

from random import Random

import pytest
from meta.world import CONFIG, cluster

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.controller import auto_create, take_over
from pk.core.meta.events import ClusterCreated, ControllerElected
from pk.core.meta.image import MetadataImage


def test_a_log_begins_with_its_cluster_and_every_controller_leaves_its_mark() -> None:
    decision = take_over(MetadataImage(), "c", 1, 1)
    assert decision.records == [ClusterCreated("c"), ControllerElected(1, 1)]
    image = MetadataImage().apply(decision.records)
    assert (image.cluster_id, image.controller_id, image.controller_epoch) == ("c", 1, 1)
    assert take_over(image, "c", 2, 2).records == [ControllerElected(2, 2)]
    with pytest.raises(KafkaError) as caught:
        take_over(image, "other", 1, 2)
    assert caught.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID


# --- creation on demand ---


@pytest.mark.parametrize(
    "name, partitions, own",
    [
        (
            "__consumer_offsets",
            50,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": "104857600",
            },
        ),
        (
            "__transaction_state",
            50,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "2",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            },
        ),
        ("plain", 4, {}),
    ],
)
def test_a_topic_is_made_on_demand(name: str, partitions: int, own: dict[str, str]) -> None:
    config = BrokerConfig.parse({"num.partitions": "4"})
    image = cluster(None, None, None)
    decision = auto_create(image, [name, name], config, Random(1))
    after = image.apply(decision.records)
    assert [t.error_code for t in decision.reply.topics] == [0]
    assert len(after.topics[name].partitions) == partitions
    factor = 3 if name.startswith("__") else 1
    assert {len(p.replicas) for p in after.topics[name].partitions} == {factor}
    assert after.topic_configs(name) == own
    assert auto_create(after, [name], config, Random(1)).records == []


def test_an_internal_topic_follows_the_brokers_keys() -> None:
    config = BrokerConfig.parse(
        {
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.segment.bytes": "5",
            "offsets.topic.compression.codec": "3",
        }
    )
    image = cluster(None)
    decision = auto_create(image, ["__consumer_offsets"], config, Random(1))
    after = image.apply(decision.records)
    assert after.topic_configs("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "lz4",
        "segment.bytes": str(1 << 20),
    }
    assert after.partition_count == 2


def test_a_topic_that_cannot_be_made_says_why() -> None:
    decision = auto_create(cluster(None), ["__consumer_offsets", "a b"], CONFIG, Random(1))
    assert [t.error_code for t in decision.reply.topics] == [
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert decision.records == []
