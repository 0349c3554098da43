"""DescribeTopicPartitions (75), version 0: topics page by page, with eligible leader replicas
(KIP-966).

Topics are sorted by name, with at most `max.request.partition.size.limit` partitions per response,
and a cursor for the start of the next one. Topics before the cursor are skipped; if all topics are
requested, one that was deleted in the meantime is not an error.
"""

from bisect import bisect_left
from typing import Final

from pk.core.api.authorization import allows
from pk.core.api.authorized import TOPIC_OPERATIONS
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.image import MetadataImage, PartitionImage, TopicImage
from pk.core.meta.topic_names import check_name
from pk.core.values import NO_LEADER
from pk.core.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_PARTITIONS_MIN: Final = 1
"""The minimum number of partitions in a response: with fewer, the client would never get
further."""


async def handle(
    context: Context, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe the topics in the image. Raises INVALID_REQUEST for a cursor at a topic that was not
    requested."""
    image = context.broker.image
    names = await _names(request, image)
    first, cursor = 0, request.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a cursor's partition must not be negative")
        if request.topics and cursor.topic_name not in names:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the request does not name the cursor's topic {cursor.topic_name}",
            )
        names = names[bisect_left(names, cursor.topic_name) :]
        first = cursor.partition_index
    limit = context.broker.config.max_request_partition_size_limit
    left = max(min(limit, request.response_partition_limit), _PARTITIONS_MIN)
    response = DescribeTopicPartitionsResponse()
    denied: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        await let_others_run()
        topic = image.topics.get(name)
        if not allows(
            context, Operation.DESCRIBE, ResourceType.TOPIC, name, log=bool(request.topics)
        ):
            if request.topics:
                denied.append(_denied(name))
            continue
        operations = context.broker.authorization.operations(
            context, ResourceType.TOPIC, name, TOPIC_OPERATIONS
        )
        if topic is None:
            response.topics.append(_unknown(name, operations))
            continue
        start = first if cursor is not None and name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=start)
            break
        partitions = topic.partitions[start : start + left]
        response.topics.append(_topic(topic, partitions, image, operations))
        await let_others_run()
        left -= len(partitions)
        end = start + len(partitions)
        if partitions and end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    response.topics += denied
    return response


async def _names(request: DescribeTopicPartitionsRequest, image: MetadataImage) -> list[str]:
    """Return the topics to describe, in order: the requested ones, else all."""
    if not request.topics:
        return sorted(image.topics)
    names: set[str] = set()
    for topic in request.topics:
        names.add(topic.name)
        await let_others_run()
    return sorted(names)


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Return a result that does not reveal whether the topic exists."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
    )


def _unknown(name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_name(name)
    except KafkaError:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=operations
    )


def _topic(
    topic: TopicImage,
    partitions: tuple[PartitionImage, ...],
    image: MetadataImage,
    operations: int,
) -> DescribeTopicPartitionsResponseTopic:
    def alive(node: int) -> bool:
        broker = image.brokers.get(node)
        return broker is not None and not broker.fenced

    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=0 if alive(p.leader) else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=p.partition,
                leader_id=p.leader if alive(p.leader) else NO_LEADER,
                leader_epoch=p.leader_epoch,
                replica_nodes=list(p.replicas),
                isr_nodes=list(p.isr),
                eligible_leader_replicas=list(p.elr),
                # Clients need the last known ELR only if there is no leader.
                last_known_elr=[] if alive(p.leader) else list(p.last_known_elr),
                offline_replicas=[node for node in p.replicas if not alive(node)],
            )
            for p in partitions
        ],
        topic_authorized_operations=operations,
    )


def error_response(
    request: DescribeTopicPartitionsRequest, error: KafkaError, version: int
) -> DescribeTopicPartitionsResponse:
    """Return the same error for every topic."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name)
            for topic in request.topics
        ]
    )
