"""DeleteRecords (21), versions 0–2: deletes the records before an offset (KIP-107).

The leader deletes them immediately, followers with their next fetches. The response waits up to
`timeout_ms` for every live replica.
"""

from collections.abc import Awaitable
from typing import NamedTuple

from pk.core.api.authorization import check
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.partition import Partition
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import INTERNAL_TOPICS
from pk.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
"""The offset that stands for the high watermark."""


async def handle(
    context: Context, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    """Advance the log start offset of each partition. The low watermark in the response is the
    lowest log start offset of the partition's live replicas."""
    response = DeleteRecordsResponse()
    waiting: list[_Waiting] = []
    for topic in request.topics:
        answers: list[DeleteRecordsPartitionResult] = []
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
        for requested in topic.partitions:
            answer = DeleteRecordsPartitionResult(
                partition_index=requested.partition_index, low_watermark=-1
            )
            answers.append(answer)
            try:
                partition, offset = _delete(context, topic.name, requested)
                answer.low_watermark = partition.low_watermark
                if answer.low_watermark < offset:
                    waiting.append(_Waiting(partition, offset, answer))
            except KafkaError as e:
                answer.error_code = e.code
            await let_others_run()
    return _wait(context, request, response, waiting) if waiting else response


class _Waiting(NamedTuple):
    """A partition whose followers have not yet deleted the records that its leader has deleted."""

    partition: Partition
    offset: int
    answer: DeleteRecordsPartitionResult


async def _wait(
    context: Context,
    request: DeleteRecordsRequest,
    response: DeleteRecordsResponse,
    waiting: list[_Waiting],
) -> DeleteRecordsResponse:
    deadline = context.broker.clock.time() + max(request.timeout_ms, 0) / 1000
    for partition, offset, answer in waiting:
        epoch = partition.leader_epoch

        def done(
            partition: Partition = partition, offset: int = offset, epoch: int = epoch
        ) -> bool:
            return (
                not partition.leads
                or partition.leader_epoch != epoch
                or partition.offline is not None
                or partition.low_watermark >= offset
            )

        in_time = await context.broker.purgatory.until(done, (partition,), deadline)
        answer.low_watermark = partition.low_watermark
        if not in_time:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        elif answer.low_watermark < offset or not partition.leads:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if answer.error_code:
            answer.low_watermark = -1
    return response


def _delete(
    context: Context, topic: str, requested: DeleteRecordsPartition
) -> tuple[Partition, int]:
    """Advance the log start offset. Returns the partition and its new log start offset. Raises
    KafkaError: INVALID_TOPIC_EXCEPTION for an internal topic, whose coordinators need all records,
    POLICY_VIOLATION, OFFSET_OUT_OF_RANGE, and the partition's errors."""
    check(context, Operation.DELETE, ResourceType.TOPIC, topic)
    partition = context.broker.data.replicas.partition(topic, requested.partition_index)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {topic} cannot be deleted")
    partition.check_leader()
    if not partition.config.delete:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"records of {topic} cannot be deleted: its cleanup.policy is compact",
        )
    offset = partition.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
    if offset < 0 or offset > partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.delete_before(offset)
    return partition, offset
