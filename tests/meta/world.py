"""A cluster to decide upon: images with brokers and topics, and a chance that is the same every
time."""

from __future__ import annotations

from random import Random
from typing import Any

from pk.core.config import BrokerConfig
from pk.core.machine import Decision
from pk.core.meta import configs, topics
from pk.core.meta.events import BrokerRegistered, ClusterCreated, Endpoint, Event
from pk.core.meta.image import MetadataImage
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
    """The image after a CreateTopics request, and what was answered."""
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
    decision: Decision[Event] = configs.incremental_alter(image, request, config)
    return image.apply(decision.records), decision.reply.responses[0]
