"""Beginnings, and topics that are made when they are first needed."""

from __future__ import annotations

import pytest
from meta.world import CONFIG, cluster, create

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.controller import internal_topic, take_over
from pk.core.meta.events import ClusterCreated, ControllerElected, FeatureChanged
from pk.core.meta.image import MetadataImage


def test_a_log_begins_with_its_cluster_and_every_controller_leaves_its_mark() -> None:
    decision = take_over(MetadataImage(), "c", 1, 1)
    assert decision.records == [
        ClusterCreated("c"),
        FeatureChanged("eligible.leader.replicas.version", 1),
        FeatureChanged("group.version", 1),
        FeatureChanged("metadata.version", 30),
        FeatureChanged("share.version", 1),
        FeatureChanged("streams.version", 1),
        FeatureChanged("transaction.version", 2),
        ControllerElected(1, 1),
    ]
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
    ],
)
def test_a_topic_is_made_on_demand(name: str, partitions: int, own: dict[str, str]) -> None:
    wanted = internal_topic(name, CONFIG)
    assert wanted is not None
    after, (answer,) = create(cluster(None, None, None), wanted)
    assert answer.error_code == 0
    assert len(after.topics[name].partitions) == partitions
    assert {len(p.replicas) for p in after.topics[name].partitions} == {3}
    assert after.topic_configs(name) == own


def test_other_topics_have_no_such_form() -> None:
    assert internal_topic("plain", CONFIG) is None


def test_an_internal_topic_follows_the_brokers_keys() -> None:
    config = BrokerConfig.parse(
        {
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.segment.bytes": "5",
            "offsets.topic.compression.codec": "3",
        }
    )
    wanted = internal_topic("__consumer_offsets", config)
    assert wanted is not None
    after, _ = create(cluster(None), wanted, config=config)
    assert after.topic_configs("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "lz4",
        "segment.bytes": str(1 << 20),
    }
    assert after.partition_count == 2
