"""A cluster to decide upon: images with brokers and topics, and a chance that is the same every
time."""

from __future__ import annotations

from random import Random
from typing import Any

from pk.core.config import BrokerConfig
from pk.core.machine import Decision
from pk.core.meta import alter_partition, brokers, configs, topics
from pk.core.meta.events import BrokerRegistered, ClusterCreated, Endpoint, Event
from pk.core.meta.image import MetadataImage, PartitionImage
from pk.core.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from pk.core.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from pk.core.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from pk.core.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

CONFIG = BrokerConfig.parse({"node.id": "1"})
SET, DELETE, APPEND, SUBTRACT = configs.Operation


def cluster(*racks: str | None, fenced: tuple[int, ...] = ()) -> MetadataImage:
    """Brokers 1 to n, each in its rack."""
    events: list[Event] = [ClusterCreated("c")]
    for node, rack in enumerate(racks, 1):
        at = Endpoint("PLAINTEXT", f"h{node}", 9092, 0)
        events.append(
            BrokerRegistered(
                node, node, node.to_bytes(16, "big"), (at,), rack, fenced=node in fenced
            )
        )
    return MetadataImage().apply(events)


def topic(
    name: str = "t",
    partitions: int = 1,
    factor: int = 1,
    assigned: dict[int, list[int]] | None = None,
    own: dict[str, str | None] | None = None,
) -> CreatableTopic:
    """One topic of a CreateTopics request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=p, broker_ids=nodes)
            for p, nodes in (assigned or {}).items()
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (own or {}).items()],
    )


def create(
    image: MetadataImage,
    *wanted: CreatableTopic,
    validate_only: bool = False,
    config: BrokerConfig = CONFIG,
    seed: int = 1,
) -> tuple[MetadataImage, list[CreatableTopicResult]]:
    """The image after a CreateTopics request, and the answer."""
    request = CreateTopicsRequest(topics=list(wanted), validate_only=validate_only)
    decision = topics.create_topics(image, request, config, Random(seed))
    return image.apply(decision.records), decision.reply.topics


def alter(
    image: MetadataImage,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    config: BrokerConfig = CONFIG,
) -> tuple[MetadataImage, Any]:
    """The image after changes of one resource's keys, and the one answer."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
        ],
        validate_only=validate_only,
    )
    decision: Decision[Event, Any] = configs.incremental_alter(image, request, config)
    return image.apply(decision.records), decision.reply.responses[0]


def registration(
    node: int = 1,
    incarnation: int = 1,
    *,
    cluster_id: str = "c",
    previous: int = -1,
    log_dirs: list[bytes] | None = None,
    features: dict[str, tuple[int, int]] | None = None,
) -> BrokerRegistrationRequest:
    """A BrokerRegistration request."""
    return BrokerRegistrationRequest(
        broker_id=node,
        cluster_id=cluster_id,
        incarnation_id=incarnation.to_bytes(16, "big"),
        listeners=[Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in (features or {}).items()
        ],
        rack="r",
        log_dirs=log_dirs or [],
        previous_broker_epoch=previous,
    )


def register(
    image: MetadataImage, request: BrokerRegistrationRequest, **options: bool
) -> tuple[MetadataImage, BrokerRegistrationResponse]:
    """The image after a registration, and the answer."""
    decision = brokers.register_broker(image, request, CONFIG, **options)
    return image.apply(decision.records), decision.reply


def beat(
    image: MetadataImage, node: int, *, config: BrokerConfig = CONFIG, **fields: Any
) -> tuple[MetadataImage, BrokerHeartbeatResponse]:
    """The image after a heartbeat of a broker that has seen everything, and the answer."""
    may_shut_down = fields.pop("may_shut_down", True)
    given = {"current_metadata_offset": image.offset - 1, **fields}
    if "broker_epoch" not in given:
        given["broker_epoch"] = image.brokers[node].broker_epoch
    request = BrokerHeartbeatRequest(broker_id=node, **given)
    decision = brokers.heartbeat(image, request, config, may_shut_down=may_shut_down)
    return image.apply(decision.records), decision.reply


def fence(image: MetadataImage, node: int, config: BrokerConfig = CONFIG) -> MetadataImage:
    """The image after the session of a broker ran out."""
    epoch = image.brokers[node].broker_epoch
    return image.apply(brokers.fence_broker(image, node, epoch, config).records)


def unfence(image: MetadataImage, node: int, config: BrokerConfig = CONFIG) -> MetadataImage:
    """The image after a fenced broker was heard of again."""
    after, reply = beat(image, node, config=config)
    assert not reply.is_fenced
    return after


def come_back(image: MetadataImage, node: int, *, clean: bool) -> MetadataImage:
    """The image after a broker registered a new incarnation and was unfenced."""
    old = image.brokers[node]
    incarnation = int.from_bytes(old.incarnation_id, "big") + 1000
    previous = old.broker_epoch if clean else -1
    after, reply = register(image, registration(node, incarnation, previous=previous))
    assert reply.error_code == 0
    return unfence(after, node)


def first(image: MetadataImage, name: str = "t") -> PartitionImage:
    """Partition 0 of a topic."""
    return image.topics[name].partitions[0]


def alter_isr(
    image: MetadataImage,
    *isr: int,
    leader: int | None = None,
    config: BrokerConfig = CONFIG,
    version: int = 3,
    epochs: dict[int, int] | None = None,
    **fields: Any,
) -> tuple[MetadataImage, ResponsePartitionData]:
    """The image after the leader of t-0 asked for another ISR, and the answer."""
    partition = first(image)
    node = partition.leader if leader is None else leader
    known = {n: image.brokers[n].broker_epoch for n in isr if n in image.brokers}
    known.update(epochs or {})
    given: dict[str, Any] = {
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        **fields,
    }
    if version < 3:
        given["new_isr"] = list(isr)
    else:
        given["new_isr_with_epochs"] = [
            BrokerState(broker_id=n, broker_epoch=known.get(n, -1)) for n in isr
        ]
    topic_id = image.topics["t"].topic_id
    request = AlterPartitionRequest(
        broker_id=node,
        broker_epoch=image.brokers[node].broker_epoch,
        topics=[TopicData(topic_id=topic_id, partitions=[PartitionData(**given)])],
    )
    decision = alter_partition.alter_partition(image, request, config, version)
    assert decision.reply.error_code == 0
    return image.apply(decision.records), decision.reply.topics[0].partitions[0]
