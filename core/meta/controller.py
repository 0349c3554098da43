"""A controller's own decisions: the first events of a cluster, and topics that are created at first
use.

Every function is pure: (image, request, …) → `Decision` of events and a reply.
`core/broker/controller/controller.py` appends the events to the log and replays them; nothing here
changes state.
"""

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import ClusterCreated, ControllerElected, Event
from pk.core.meta.features import first_features
from pk.core.meta.image import MetadataImage
from pk.core.record.compress import Codec
from pk.core.values import (
    OFFSETS_TOPIC,
    REMOTE_METADATA_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
)


def take_over(
    image: MetadataImage, cluster_id: str, controller_id: int, epoch: int
) -> Decision[Event, None]:
    """Decide the events that a newly elected controller appends first. An empty log becomes the log
    of `cluster_id`.

    Raises KafkaError(INCONSISTENT_CLUSTER_ID) if the log belongs to another cluster.
    """
    decision: Decision[Event, None] = Decision()
    if not image.cluster_id:
        decision.records += [ClusterCreated(cluster_id), *first_features()]
    elif image.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"the metadata log is that of cluster {image.cluster_id}, not of {cluster_id}",
        )
    decision.records.append(ControllerElected(controller_id, epoch))
    return decision


def internal_topic(name: str, config: BrokerConfig) -> CreatableTopic | None:
    """Return the settings with which an internal topic is created at first use, or None if `name`
    is not one."""
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
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            config.transaction_state_log_segment_bytes,
        )
        own = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "unclean.leader.election.enable": "false",
        }
    elif name == SHARE_STATE_TOPIC:
        partitions, factor, segment_bytes = (
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            config.share_coordinator_state_topic_segment_bytes,
        )
        own = {
            # The share coordinators delete the records that they no longer need.
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
        }
    elif name == REMOTE_METADATA_TOPIC:
        # As in Apache Kafka, this topic is never compacted or deleted: its records have no keys.
        return CreatableTopic(
            name=name,
            num_partitions=config.pk_remote_metadata_partitions,
            replication_factor=config.pk_remote_metadata_replication_factor,
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="delete"),
                CreatableTopicConfig(name="retention.ms", value="-1"),
                CreatableTopicConfig(name="remote.storage.enable", value="false"),
            ],
        )
    else:
        return None
    # Brokers allow smaller segments than topics do. The lower bound of topics applies.
    own["segment.bytes"] = str(max(segment_bytes, 1 << 20))
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in own.items()],
    )
