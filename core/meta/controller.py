"""What a controller decides besides topics and configs: a cluster's beginning, brokers, producer
ids, internal topics.

Every function is pure: (image, request, …) → `Decision` of events and an answer.
`core/broker/controller.py` appends the events to the log and replays them; nothing here changes
anything.
"""

from dataclasses import dataclass
from typing import Final

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta import elections, topics
from pk.core.meta.events import (
    BrokerRegistered,
    ClusterCreated,
    ControllerElected,
    Endpoint,
    Event,
    FeatureRange,
    ProducerIdsAllocated,
)
from pk.core.meta.image import MetadataImage
from pk.core.meta.placement import Chance
from pk.core.record.compress import Codec
from pk.core.values import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pk.core.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

PRODUCER_IDS_PER_BLOCK: Final = 1000


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Producer ids that one broker may give out: `count` of them from `first`."""

    first: int
    count: int


def take_over(
    image: MetadataImage, cluster_id: str, controller_id: int, epoch: int
) -> Decision[Event]:
    """What a newly elected controller appends first. A log without a cluster becomes that of
    `cluster_id`.

    Raises KafkaError(INCONSISTENT_CLUSTER_ID) where the log belongs to another cluster.
    """
    decision: Decision[Event] = Decision()
    if not image.cluster_id:
        decision.records.append(ClusterCreated(cluster_id))
    elif image.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"the metadata log is that of cluster {image.cluster_id}, not of {cluster_id}",
        )
    decision.records.append(ControllerElected(controller_id, epoch))
    return decision


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    config: BrokerConfig,
    *,
    fenced: bool = True,
) -> Decision[Event]:
    """Decide a BrokerRegistration request (KIP-631). The reply is its response, with the new broker
    epoch.

    A broker that shares its process with the only controller has nobody to send heartbeats to: it
    comes with `fenced=False` and leads at once. Asking again with the same incarnation id gives the
    same epoch.
    """
    decision: Decision[Event] = Decision()
    node = request.broker_id
    if request.cluster_id != image.cluster_id:
        decision.reply = BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        return decision
    old = image.brokers.get(node)
    if old is not None and old.incarnation_id == request.incarnation_id:
        decision.reply = BrokerRegistrationResponse(broker_epoch=old.broker_epoch)
        return decision
    # The log's offset only grows, so an epoch taken from it is never given twice.
    epoch = image.offset
    decision.records.append(
        BrokerRegistered(
            node,
            epoch,
            request.incarnation_id,
            tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
            request.rack,
            tuple(request.log_dirs),
            tuple(
                FeatureRange(f.name, f.min_supported_version, f.max_supported_version)
                for f in request.features
            ),
            fenced,
        )
    )
    unclean = unclean_rule(image, config)
    react = elections.broker_gone if fenced else elections.broker_returned
    decision.records += react(image, node, unclean)
    decision.reply = BrokerRegistrationResponse(broker_epoch=epoch)
    return decision


def unclean_rule(image: MetadataImage, config: BrokerConfig) -> elections.Unclean:
    """Whether a topic lets a replica lead that is not in sync."""

    def unclean(topic: str) -> bool:
        return config.topic(image.topic_configs(topic)).unclean_leader_election_enable

    return unclean


def allocate_producer_ids(
    image: MetadataImage, broker_id: int, broker_epoch: int
) -> Decision[Event]:
    """The next block of producer ids for a broker (KIP-730); the reply is a `ProducerIdBlock`.

    Raises KafkaError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered"
        )
    if broker.broker_epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} has epoch {broker.broker_epoch}, not {broker_epoch}",
        )
    first = image.producer_id_next
    after = first + PRODUCER_IDS_PER_BLOCK
    return Decision(
        [ProducerIdsAllocated(broker_id, broker_epoch, after)],
        reply=ProducerIdBlock(first, PRODUCER_IDS_PER_BLOCK),
    )


def internal_topic(name: str, config: BrokerConfig) -> CreatableTopic | None:
    """How an internal topic is made when it is first needed; None where `name` is none."""
    if name == OFFSETS_TOPIC:
        codec = Codec(config.offsets_topic_compression_codec)
        partitions, factor, segment_bytes = (
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            config.offsets_topic_segment_bytes,
        )
        own = {
            "cleanup.policy": "compact",
            "compression.type": "producer" if codec is Codec.NONE else codec.name.lower(),
        }
    elif name == TRANSACTIONS_TOPIC:
        partitions, factor, segment_bytes = (
            _whole(config, f"transaction.state.log.{key}")
            for key in ("num.partitions", "replication.factor", "segment.bytes")
        )
        own = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
            "unclean.leader.election.enable": "false",
        }
    else:
        return None
    # Brokers know a smaller segment than topics do: a topic's own bounds count.
    own["segment.bytes"] = str(max(segment_bytes, 1 << 20))
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in own.items()],
    )


def _whole(config: BrokerConfig, name: str) -> int:
    value = config[name]
    assert isinstance(value, int)
    return value


def auto_create(
    image: MetadataImage, names: list[str], config: BrokerConfig, random: Chance
) -> Decision[Event]:
    """Create topics because somebody asked for them; the reply is a CreateTopicsResponse for those
    that were missing.

    An internal topic gets what Kafka gives it, any other the broker's defaults.
    """
    missing = [name for name in dict.fromkeys(names) if name not in image.topics]
    request = CreateTopicsRequest(
        topics=[
            internal_topic(name, config)
            or CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
            for name in missing
        ]
    )
    return topics.create_topics(image, request, config, random)
