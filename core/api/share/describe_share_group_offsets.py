"""DescribeShareGroupOffsets (90), versions 0–1: the offsets of share groups in their topics, and
their lag (v1)."""

from __future__ import annotations

from pk.core.api.authorization import allows, is_on, refusal
from pk.core.api.groups.merged_groups import merged
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


async def handle(
    context: Context, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Describe each group's offsets, with its coordinators. Each group has its own error."""
    context.broker.groups.coordinators.check_protocol(GroupType.SHARE)
    response = DescribeShareGroupOffsetsResponse()
    for group in merged(request.groups):
        await let_others_run()
        try:
            if not allows(context, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            response.groups.append(await _describe(context, group))
        except KafkaError as e:
            response.groups.append(_failed(group.group_id, e))
    return response


async def _describe(
    context: Context, group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    """Describe one group. Topics that the client may not describe get an error if they were
    requested, and are left out otherwise."""
    if not is_on(context):
        return await context.broker.groups.share_offsets.describe(group)
    refused: list[DescribeShareGroupOffsetsResponseTopic] = []
    if group.topics is not None:
        kept: list[DescribeShareGroupOffsetsRequestTopic] = []
        for topic in group.topics:
            await let_others_run()
            if allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic_name):
                kept.append(topic)
            else:
                refused.append(_denied(topic))
        group.topics = kept
        if not kept and refused:
            return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=refused)
    found = await context.broker.groups.share_offsets.describe(group)
    kind = ResourceType.TOPIC
    found.topics = [
        topic
        for topic in found.topics
        if allows(context, Operation.DESCRIBE, kind, topic.topic_name, log=False)
    ]
    found.topics += refused
    return found


def _denied(
    topic: DescribeShareGroupOffsetsRequestTopic,
) -> DescribeShareGroupOffsetsResponseTopic:
    error = refusal(ResourceType.TOPIC)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=error.code, error_message=error.message
            )
            for index in topic.partitions
        ],
    )


def _failed(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=error.code, error_message=error.message or None
    )


def error_response(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError, version: int
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[_failed(group.group_id, error) for group in request.groups]
    )
