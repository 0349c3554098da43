"""DescribeTopicPartitions (75), version 0: topics page by page, with eligible leader replicas
(KIP-966).

Topics come in order of their names, at most `max.request.partition.size.limit` partitions an
answer, and a cursor says where the next one begins. Topics before the cursor are passed over; one
that went away meanwhile is no error when all topics are asked for.
"""

from typing import Final

from pk.core.api.authorized import TOPIC_OPERATIONS
from pk.core.api.registry import Api
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

_AT_LEAST: Final = 1
"""A limit below one would never get anywhere."""


def handle(
    context: Context, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Answer from the image. Raises INVALID_REQUEST for a cursor that points to nothing asked
    for."""
    image = context.broker.image
    names = sorted({t.name for t in request.topics} if request.topics else image.topics)
    first, cursor = 0, request.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a cursor's partition is not negative")
        if request.topics and cursor.topic_name not in names:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the cursor's topic {cursor.topic_name} is not asked for",
            )
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index
    limit = context.broker.config.max_request_partition_size_limit
    left = max(min(limit, request.response_partition_limit), _AT_LEAST)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        begin = first if cursor is not None and name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=begin)
            break
        partitions = topic.partitions[begin : begin + left]
        response.topics.append(_topic(topic, partitions, image))
        left -= len(partitions)
        end = begin + len(partitions)
        if partitions and end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return response


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_name(name)
    except KafkaError:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _topic(
    topic: TopicImage, partitions: tuple[PartitionImage, ...], image: MetadataImage
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
                last_known_elr=list(p.last_known_elr),
                offline_replicas=[node for node in p.replicas if not alive(node)],
            )
            for p in partitions
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def error_response(
    request: DescribeTopicPartitionsRequest, error: KafkaError, version: int
) -> DescribeTopicPartitionsResponse:
    """The same error for every topic."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name)
            for topic in request.topics
        ]
    )


API = Api(
    key=75,
    versions=(0, 0),
    handle=handle,
    error_response=error_response,
)
