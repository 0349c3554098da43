"""OffsetForLeaderEpoch (23), versions 2–4: the end of an epoch in the leader's log (KIP-101,
KIP-279, KIP-320).

A consumer checks with it whether the log was truncated below its position, a follower where to
truncate.
"""

from collections.abc import Iterator

from pk.core.api.authorization import allows_cluster, check
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


async def handle(
    context: Context, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return the largest epoch that is not above the requested one, and its end offset."""
    response = OffsetForLeaderEpochResponse()
    of_cluster = allows_cluster(context, Operation.CLUSTER_ACTION, log=False)
    for topic, requested, answer in _each(request, response):
        await let_others_run()
        try:
            if not of_cluster:
                check(context, Operation.DESCRIBE, ResourceType.TOPIC, topic)
            partition = context.broker.data.replicas.partition(topic, requested.partition)
            partition.check_leader(requested.current_leader_epoch)
            answer.leader_epoch, answer.end_offset = partition.log.state.end_offset_for_epoch(
                requested.leader_epoch
            )
        except KafkaError as e:
            answer.error_code = e.code
    return response


def _each(
    request: OffsetForLeaderEpochRequest, response: OffsetForLeaderEpochResponse
) -> Iterator[tuple[str, OffsetForLeaderPartition, EpochEndOffset]]:
    """Yield each topic and requested partition, with its result, which is already in `response`."""
    for topic in request.topics:
        answers: list[EpochEndOffset] = []
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
        for requested in topic.partitions:
            answers.append(EpochEndOffset(partition=requested.partition))
            yield topic.topic, requested, answers[-1]
