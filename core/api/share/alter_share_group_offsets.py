"""AlterShareGroupOffsets (91), version 0: sets the start offsets of an empty share group
(KIP-932)."""

from pk.core.api.authorization import refusal, split_topics
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


async def handle(
    context: Context, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Submit the request to the group's coordinator and the share coordinators."""
    context.broker.groups.coordinators.check_protocol(GroupType.SHARE)
    request.topics, denied = await split_topics(
        context, Operation.READ, request.topics, lambda topic: topic.topic_name
    )
    response = await context.broker.groups.share_offsets.alter(request)
    for topic in denied:
        await let_others_run()
        response.responses.append(_denied(context, topic))
    return response


def _denied(
    context: Context, topic: AlterShareGroupOffsetsRequestTopic
) -> AlterShareGroupOffsetsResponseTopic:
    error = refusal(ResourceType.TOPIC)
    known = context.broker.image.topics.get(topic.topic_name)
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=known.topic_id if known is not None else ZERO_UUID,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index,
                error_code=error.code,
                error_message=error.message,
            )
            for one in topic.partitions
        ],
    )
