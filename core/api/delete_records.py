"""DeleteRecords (21), versions 0–2: drop what lies before an offset (KIP-107)."""

from pk.core.api.registry import Api, Operation
from pk.core.broker.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
"""As an offset: everything that readers can see."""


def handle(context: Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Move each partition's start; the answer's low watermark is where it starts now."""
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answers: list[DeleteRecordsPartitionResult] = []
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
        for wish in topic.partitions:
            answer = DeleteRecordsPartitionResult(
                partition_index=wish.partition_index, low_watermark=-1
            )
            answers.append(answer)
            try:
                answer.low_watermark = _delete(context, topic.name, wish)
            except KafkaError as e:
                answer.error_code = e.code
    return response


def _delete(context: Context, topic: str, wish: DeleteRecordsPartition) -> int:
    """The partition's new start. Raises POLICY_VIOLATION, OFFSET_OUT_OF_RANGE, and what the partition does."""
    partition = context.broker.replicas.partition(topic, wish.partition_index)
    partition.check_leader()
    if not partition.config.delete:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{topic} is only compacted")
    offset = partition.high_watermark if wish.offset == HIGH_WATERMARK else wish.offset
    if offset < 0 or offset > partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.delete_before(offset)
    return partition.log.log_start_offset


API = Api(key=21, versions=(0, 2), handle=handle, operation=Operation.DELETE)
