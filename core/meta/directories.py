"""The log directory of each replica (KIP-858), as brokers report it to the controller.

The controller needs it so that a failed directory removes only its own replicas from the ISR. If a
replica appears in another directory while its old directory works, the replica was moved there with
all its records. If the old directory has failed, the replica is new and empty: it leaves the ISR,
and is not an eligible leader replica. Brokers report every replica. Until a replica is reported,
its directory is assumed to work.
"""

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.machine import Decision
from pk.core.meta.directory_id import LOST, UNKNOWN_DIRECTORIES
from pk.core.meta.events import Event, PartitionChanged
from pk.core.meta.image import BrokerImage, MetadataImage, PartitionImage, TopicImage, changed
from pk.core.meta.partition_change_builder import PartitionChangeBuilder, without
from pk.core.meta.partition_rules import PartitionRules
from pk.core.values import Uuid
from pk.core.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)


def assign_directories(
    image: MetadataImage, request: AssignReplicasToDirsRequest, config: BrokerConfig
) -> Decision[Event, AssignReplicasToDirsResponse]:
    """Decide an AssignReplicasToDirs request; the reply is its response.

    Errors: STALE_BROKER_EPOCH for the whole request; for each partition UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER if the broker has no replica of the
    partition.
    """
    if image.is_stale(request.broker_id, request.broker_epoch):
        return Decision(reply=AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    decision: Decision[Event, AssignReplicasToDirsResponse] = Decision()
    decision.reply = response = AssignReplicasToDirsResponse()
    broker = image.brokers[request.broker_id]
    rules = PartitionRules(image, config)
    done: dict[tuple[Uuid, int], PartitionImage] = {}
    for directory in request.directories:
        in_directory = ResponseDirectoryData(id=directory.id)
        response.directories.append(in_directory)
        for asked in directory.topics:
            answer = ResponseTopicData(topic_id=asked.topic_id)
            in_directory.topics.append(answer)
            topic = image.topic_by_id(asked.topic_id)
            for one in asked.partitions:
                key = (asked.topic_id, one.partition_index)
                partition = done.get(key)
                if partition is None and topic is not None:
                    partition = topic.partition(one.partition_index)
                code = _objection(topic, partition, broker)
                if code == ErrorCode.NONE and topic is not None and partition is not None:
                    event = _assign(rules, topic, partition, broker, directory.id)
                    if event is not None:
                        done[key] = changed(partition, event)
                        decision.records.append(event)
                answer.partitions.append(
                    ResponsePartitionData(partition_index=one.partition_index, error_code=code)
                )
    return decision


def _objection(
    topic: TopicImage | None, partition: PartitionImage | None, broker: BrokerImage
) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _assign(
    rules: PartitionRules,
    topic: TopicImage,
    partition: PartitionImage,
    broker: BrokerImage,
    directory: Uuid,
) -> PartitionChanged | None:
    node, old = broker.broker_id, partition.directory(broker.broker_id)
    works = directory in broker.log_dirs or directory in UNKNOWN_DIRECTORIES
    moved = old in broker.log_dirs or old in UNKNOWN_DIRECTORIES
    fresh = directory not in (old, LOST) and not moved
    change = PartitionChangeBuilder(rules, topic, partition)
    change.directories = {node: directory}
    if not works:
        change.isr = without(partition.isr, node)
    if fresh:
        change.emptied = node
    return change.build()
