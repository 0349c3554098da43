"""Beginnings, brokers, elections, producer ids, internal topics."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from meta.world import CONFIG, alter, cluster, create, topic

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import elections
from pk.core.meta.controller import (
    allocate_producer_ids,
    auto_create,
    register_broker,
    take_over,
    unclean_rule,
)
from pk.core.meta.events import (
    TOPIC,
    BrokerChanged,
    ClusterCreated,
    ControllerElected,
    Endpoint,
    PartitionChanged,
)
from pk.core.meta.image import MetadataImage, PartitionImage
from pk.core.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)


def registration(node: int = 1, incarnation: int = 1, cluster_id: str = "c") -> Any:
    return BrokerRegistrationRequest(
        broker_id=node,
        cluster_id=cluster_id,
        incarnation_id=incarnation.to_bytes(16, "big"),
        listeners=[Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[Feature(name="f", min_supported_version=1, max_supported_version=2)],
        rack="r",
        log_dirs=[b"d" * 16],
    )


def register(image: MetadataImage, request: Any, *, fenced: bool = True) -> Any:
    decision = register_broker(image, request, CONFIG, fenced=fenced)
    return image.apply(decision.records), decision.reply


def test_a_log_begins_with_its_cluster_and_every_controller_leaves_its_mark() -> None:
    decision = take_over(MetadataImage(), "c", 1, 1)
    assert decision.records == [ClusterCreated("c"), ControllerElected(1, 1)]
    image = MetadataImage().apply(decision.records)
    assert (image.cluster_id, image.controller_id, image.controller_epoch) == ("c", 1, 1)
    assert take_over(image, "c", 2, 2).records == [ControllerElected(2, 2)]
    with pytest.raises(KafkaError) as caught:
        take_over(image, "other", 1, 2)
    assert caught.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_broker_registers() -> None:
    image, reply = register(cluster(), registration())
    broker = image.brokers[1]
    assert (reply.error_code, reply.broker_epoch) == (0, broker.broker_epoch)
    assert broker.endpoints == (Endpoint("PLAINTEXT", "h", 9092, 0),)
    assert (broker.rack, broker.log_dirs, broker.fenced) == ("r", (b"d" * 16,), True)
    assert broker.features == (("f", 1, 2),)
    again, reply = register(image, registration())
    assert again.offset == image.offset and reply.broker_epoch == broker.broker_epoch
    later, reply = register(image, registration(incarnation=2))
    assert reply.broker_epoch == later.brokers[1].broker_epoch > broker.broker_epoch


def test_a_broker_of_another_cluster_is_refused() -> None:
    image, reply = register(cluster(), registration(cluster_id="other"))
    assert reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID and not image.brokers


def test_a_broker_that_returns_leads_in_a_new_epoch() -> None:
    image, _ = register(cluster(), registration(), fenced=False)
    image, _ = create(image, topic("t", 2))
    image, _ = register(image, registration(incarnation=2), fenced=False)
    for partition in image.topics["t"].partitions:
        assert (partition.leader, partition.leader_epoch) == (1, 1)
    fenced, _ = register(image, registration(incarnation=3))
    for partition in fenced.topics["t"].partitions:
        assert (partition.leader, partition.isr, partition.leader_epoch) == (-1, (1,), 2)


# --- elections ---


def one_partition(image: MetadataImage, *nodes: int, own: Any = None) -> MetadataImage:
    after, (result,) = create(image, topic("t", -1, -1, {0: list(nodes)}, own))
    assert result.error_code == 0
    return after


def first(image: MetadataImage) -> PartitionImage:
    return image.topics["t"].partitions[0]


def gone(image: MetadataImage, node: int) -> MetadataImage:
    broker = image.brokers[node]
    events = list(elections.broker_gone(image, node, unclean_rule(image, CONFIG)))
    return image.apply([BrokerChanged(node, broker.broker_epoch, fenced=True), *events])


def came(image: MetadataImage, node: int) -> MetadataImage:
    broker = image.brokers[node]
    events = list(elections.broker_came(image, node, unclean_rule(image, CONFIG)))
    return image.apply([BrokerChanged(node, broker.broker_epoch, fenced=False), *events])


def test_leadership_goes_to_the_next_in_sync_and_the_last_one_is_waited_for() -> None:
    image = one_partition(cluster(None, None, None), 2, 3, 1)
    image = gone(image, 2)
    assert (first(image).leader, first(image).isr) == (3, (3, 1))
    image = gone(image, 1)
    assert (first(image).leader, first(image).isr, first(image).leader_epoch) == (3, (3,), 1)
    image = gone(image, 3)
    assert (first(image).leader, first(image).isr) == (-1, (3,))
    assert first(came(image, 1)).leader == -1, "it may lack what was committed"
    image = came(image, 3)
    assert (first(image).leader, first(image).leader_epoch) == (3, 3)


def test_an_unclean_leader_is_one_only_where_the_topic_allows_it() -> None:
    image = one_partition(cluster(None, None), 1, 2)
    image = gone(gone(image, 2), 1)
    assert (first(image).leader, first(image).isr) == (-1, (1,))
    image, answer = alter(image, TOPIC, "t", ("unclean.leader.election.enable", 0, "true"))
    assert answer.error_code == 0
    image = came(image, 2)
    assert (first(image).leader, first(image).isr) == (2, (2,))


def test_who_has_nothing_to_do_with_a_partition_does_not_move_it() -> None:
    image = one_partition(cluster(None, None, None), 1, 2)
    never = unclean_rule(image, CONFIG)
    assert list(elections.broker_gone(image, 3, never)) == []
    assert list(elections.broker_came(image, 3, never)) == []
    follower = list(elections.broker_gone(image, 2, never))
    assert follower == [PartitionChanged(image.topics["t"].topic_id, 0, isr=(1,))]


# --- producer ids ---


def test_blocks_of_producer_ids_never_overlap() -> None:
    image, _ = register(cluster(), registration())
    seen: set[int] = set()
    for _ in range(3):
        decision = allocate_producer_ids(image, 1, image.brokers[1].broker_epoch)
        image = image.apply(decision.records)
        block = range(decision.reply.first, decision.reply.first + decision.reply.count)
        assert seen.isdisjoint(block)
        seen.update(block)
    assert image.producer_id_next == 3000


@pytest.mark.parametrize(
    "node, epoch, code",
    [(2, 0, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, -1, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_only_a_registered_broker_gets_producer_ids(node: int, epoch: int, code: ErrorCode) -> None:
    image, _ = register(cluster(), registration())
    with pytest.raises(KafkaError) as caught:
        allocate_producer_ids(image, node, epoch)
    assert caught.value.code == code


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
