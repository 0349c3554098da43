"""OffsetFetch (9), versions 0–10: the committed offsets of a group.

KIP-88 (v2: all topics), KIP-320 (v5: leader epochs), KIP-447 (v7: RequireStable), KIP-709 (v8:
several groups), KIP-848 (v9: members), v10 topics by id. With RequireStable, a partition with a
commit in an open transaction is UNSTABLE_OFFSET_COMMIT. A partition without a commit has offset -1
and no error; in version 0, for offsets in ZooKeeper, it is UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from pk.core.api.authorization import allows, is_on, refusal
from pk.core.api.groups.merged_groups import merged
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator_shard import gather_replies
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import NO_EPOCH, NO_OFFSET, ZERO_UUID
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NO_ERROR_FOR_NONE_SINCE: Final = 1
TOP_LEVEL_ERROR_SINCE: Final = 2
SEVERAL_GROUPS_SINCE: Final = 8
TOPIC_ID_SINCE: Final = 10


async def handle(
    context: Context, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Fetch each group's offsets from its coordinator."""
    version = context.api_version
    if version < SEVERAL_GROUPS_SINCE:
        group = _only_group(request)
        answer = await _fetch(context, group, request.require_stable)
        if isinstance(answer, OffsetFetchResponseGroup):
            return _in_old_version(answer, version)
        return _wait_in_old_version(answer, version)
    answers: list[Any] = []
    ready = True
    for group in merged(request.groups):
        answer = await _fetch(context, group, request.require_stable)
        answers.append(answer)
        ready = ready and isinstance(answer, OffsetFetchResponseGroup)
        await let_others_run()
    return (OffsetFetchResponse(groups=answers)) if ready else _wait(answers)


async def _wait_in_old_version(answer: Any, version: int) -> OffsetFetchResponse:
    return _in_old_version(await answer, version)


async def _wait(answers: list[Any]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=await gather_replies(answers))


async def _fetch(context: Context, group: OffsetFetchRequestGroup, require_stable: bool) -> Any:
    """Return the response for one group, including errors, or an awaitable of it."""
    if not allows(context, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return _failed(group, refusal(ResourceType.GROUP), context.api_version)
    refused: list[OffsetFetchResponseTopics] = []
    by_id = context.api_version >= TOPIC_ID_SINCE
    request = group
    if by_id and group.topics is not None:
        request, refused = await _with_topic_names(context, group)
    if is_on(context) and request.topics is not None:
        request = await _without_denied(context, request, refused)
    try:
        answer = context.broker.groups.coordinators.submit_nowait(
            group.group_id,
            lambda machine, _, now_ms: machine.fetch(
                request, now_ms, require_stable=require_stable
            ),
        )
    except KafkaError as e:
        return _failed(group, e, context.api_version)
    if isinstance(answer, OffsetFetchResponseGroup):
        return await _finish(context, answer, refused)
    return _finish_later(context, group, answer, refused)


async def _finish_later(
    context: Context,
    group: OffsetFetchRequestGroup,
    answer: Any,
    refused: list[OffsetFetchResponseTopics],
) -> OffsetFetchResponseGroup:
    try:
        return await _finish(context, await answer, refused)
    except KafkaError as e:
        return _failed(group, e, context.api_version)


async def _finish(
    context: Context,
    answer: OffsetFetchResponseGroup,
    refused: list[OffsetFetchResponseTopics],
) -> OffsetFetchResponseGroup:
    """Leave out topics that the client may not describe. If topics are requested by id, add their
    ids; a topic that no longer has an id cannot be returned."""
    if is_on(context):
        # Topics requested by name have already been checked.
        found = answer.topics
        answer.topics = []
        for topic in found:
            if allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name, log=False):
                answer.topics.append(topic)
            await let_others_run()
    if context.api_version >= TOPIC_ID_SINCE:
        topics = context.broker.image.topics
        named: list[OffsetFetchResponseTopics] = []
        for topic in answer.topics:
            if topic.topic_id == ZERO_UUID and topic.name in topics:
                topic.topic_id = topics[topic.name].topic_id
            if topic.topic_id != ZERO_UUID:
                named.append(topic)
            await let_others_run()
        answer.topics = named
    answer.topics += refused
    return answer


async def _with_topic_names(
    context: Context, group: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """Return the request with topic names, and the responses for unknown ids."""
    kept: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in group.topics or ():
        known = context.broker.image.topic_by_id(topic.topic_id)
        if known is not None:
            topic.name = known.name
            kept.append(topic)
        else:
            refused.append(_failed_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        await let_others_run()
    named = OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=kept,
    )
    return named, refused


async def _without_denied(
    context: Context,
    group: OffsetFetchRequestGroup,
    refused: list[OffsetFetchResponseTopics],
) -> OffsetFetchRequestGroup:
    """Return the request without topics that the client may not describe; add the responses for
    those to `refused`."""
    kept: list[OffsetFetchRequestTopics] = []
    for topic in group.topics or ():
        if allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            kept.append(topic)
        else:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append(_failed_topic(topic, error))
        await let_others_run()
    return OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=kept,
    )


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes)
            for t in topics
        ],
    )


def _failed_topic(topic: OffsetFetchRequestTopics, error: int) -> OffsetFetchResponseTopics:
    answer = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
    for index in topic.partition_indexes:
        answer.partitions.append(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=NO_EPOCH,
                metadata="",
                error_code=error,
            )
        )
    return answer


def _failed(
    group: OffsetFetchRequestGroup, error: KafkaError, version: int
) -> OffsetFetchResponseGroup:
    """Return the error for the group; version 1 can return it only for each partition."""
    answer = OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    if version < TOP_LEVEL_ERROR_SINCE:
        answer.topics = [_failed_topic(topic, error.code) for topic in group.topics or ()]
    return answer


def _in_old_version(group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    response = OffsetFetchResponse(error_code=group.error_code)
    for topic in group.topics:
        answer = OffsetFetchResponseTopic(name=topic.name)
        response.topics.append(answer)
        for found in topic.partitions:
            error = found.error_code
            if version < NO_ERROR_FOR_NONE_SINCE and found.committed_offset == NO_OFFSET:
                error = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=found.partition_index,
                    committed_offset=found.committed_offset,
                    committed_leader_epoch=found.committed_leader_epoch,
                    metadata=found.metadata,
                    error_code=error,
                )
            )
    return response


def error_response(
    request: OffsetFetchRequest, error: KafkaError, version: int
) -> OffsetFetchResponse:
    if version < SEVERAL_GROUPS_SINCE:
        return _in_old_version(_failed(_only_group(request), error, version), version)
    return OffsetFetchResponse(groups=[_failed(group, error, version) for group in request.groups])
