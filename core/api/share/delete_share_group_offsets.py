"""DeleteShareGroupOffsets (92), version 0: deletes an empty share group's offsets in topics
(KIP-932)."""

from pk.core.api.authorization import refusal, split_topics
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


async def handle(
    context: Context, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Submit the request to the group's coordinator and the share coordinators."""
    context.broker.groups.coordinators.check_protocol(GroupType.SHARE)
    request.topics, denied = await split_topics(
        context, Operation.READ, request.topics, lambda topic: topic.topic_name
    )
    response = await context.broker.groups.share_offsets.delete(request)
    for topic in denied:
        await let_others_run()
        response.responses.append(_denied(topic))
    return response


def _denied(topic: DeleteShareGroupOffsetsRequestTopic) -> DeleteShareGroupOffsetsResponseTopic:
    error = refusal(ResourceType.TOPIC)
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, error_code=error.code, error_message=error.message
    )
