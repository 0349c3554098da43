"""OffsetFetch (9), versions 0–10: how far a group has read.

KIP-88 (v2: all topics), KIP-320 (v5: leader epochs), KIP-447 (v7: RequireStable), KIP-709 (v8: several groups), KIP-848 (v9:
members), v10 topics by id. With RequireStable a partition that an open transaction would commit to is
UNSTABLE_OFFSET_COMMIT. What was never committed has offset -1 and no error; in version 0,
which knew offsets in ZooKeeper only, it is UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import Any, Final

from pk.core.api.registry import Answer, Api
from pk.core.broker.coordinator.coordinator import all_of
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


def handle(context: Context, request: OffsetFetchRequest) -> Answer[OffsetFetchResponse]:
    """Ask the coordinator of every group."""
    version = context.api_version
    if version < SEVERAL_GROUPS_SINCE:
        group = _only_group(request)
        answer = _fetch(context, group, request.require_stable)
        if isinstance(answer, OffsetFetchResponseGroup):
            return _old(answer, version)
        return _wait_old(answer, version)
    answers = [_fetch(context, group, request.require_stable) for group in request.groups]
    if all(isinstance(a, OffsetFetchResponseGroup) for a in answers):
        return OffsetFetchResponse(groups=answers)
    return _wait(answers)


async def _wait_old(answer: Any, version: int) -> OffsetFetchResponse:
    return _old(await answer, version)


async def _wait(answers: list[Any]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=await all_of(answers))


def _fetch(context: Context, group: OffsetFetchRequestGroup, require_stable: bool) -> Any:
    """A group's answer, or an awaitable of it; an error is the group's own."""
    refused: list[OffsetFetchResponseTopics] = []
    by_id = context.api_version >= TOPIC_ID_SINCE
    asked = group
    if by_id and group.topics is not None:
        asked, refused = _named(context, group)
    try:
        answer = context.broker.coordinators.submit(
            group.group_id,
            lambda machine, _, now_ms: machine.fetch(asked, now_ms, require_stable=require_stable),
        )
    except KafkaError as e:
        return _failed(group, e, context.api_version)
    if isinstance(answer, OffsetFetchResponseGroup):
        return _finish(context, answer, refused)
    return _finish_later(context, group, answer, refused)


async def _finish_later(
    context: Context,
    group: OffsetFetchRequestGroup,
    answer: Any,
    refused: list[OffsetFetchResponseTopics],
) -> OffsetFetchResponseGroup:
    try:
        return _finish(context, await answer, refused)
    except KafkaError as e:
        return _failed(group, e, context.api_version)


def _finish(
    context: Context, answer: OffsetFetchResponseGroup, refused: list[OffsetFetchResponseTopics]
) -> OffsetFetchResponseGroup:
    """Give every topic its id, where they go by that; one that has none any more cannot be named."""
    if context.api_version >= TOPIC_ID_SINCE:
        topics = context.broker.image.topics
        for topic in answer.topics:
            if topic.topic_id == ZERO_UUID and topic.name in topics:
                topic.topic_id = topics[topic.name].topic_id
        answer.topics = [t for t in answer.topics if t.topic_id != ZERO_UUID] + refused
    return answer


def _named(
    context: Context, group: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """The request with the topics' names, and the answers for ids that nobody has."""
    kept: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in group.topics or ():
        known = context.broker.image.topic_by_id(topic.topic_id)
        if known is not None:
            topic.name = known.name
            kept.append(topic)
        else:
            refused.append(_failed_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID))
    named = OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=kept,
    )
    return named, refused


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
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=NO_EPOCH,
                metadata="",
                error_code=error,
            )
            for index in topic.partition_indexes
        ],
    )


def _failed(
    group: OffsetFetchRequestGroup, error: KafkaError, version: int
) -> OffsetFetchResponseGroup:
    """The group's error; version 1 can say it only partition by partition."""
    answer = OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    if version < TOP_LEVEL_ERROR_SINCE:
        answer.topics = [_failed_topic(topic, error.code) for topic in group.topics or ()]
    return answer


def _old(group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    if version < NO_ERROR_FOR_NONE_SINCE:
        for topic in group.topics:
            for partition in topic.partitions:
                if partition.committed_offset == NO_OFFSET and not partition.error_code:
                    partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=p.partition_index,
                        committed_offset=p.committed_offset,
                        committed_leader_epoch=p.committed_leader_epoch,
                        metadata=p.metadata,
                        error_code=p.error_code,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _error_response(
    request: OffsetFetchRequest, error: KafkaError, version: int
) -> OffsetFetchResponse:
    if version < SEVERAL_GROUPS_SINCE:
        return _old(_failed(_only_group(request), error, version), version)
    return OffsetFetchResponse(groups=[_failed(group, error, version) for group in request.groups])


API = Api(
    key=9,
    versions=(0, 10),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
