"""OffsetCommit (8), versions 0–10: a consumer stores how far it has read.

Version 0 names no member (Kafka of that time wrote to ZooKeeper; here it is a commit from outside
of the group), v1 brings the time of each commit, versions 2–4 say how long to keep the offsets
(KIP-186, KIP-211), v6 leader epochs (KIP-320), v7 static members (KIP-345), v9 GROUP_ID_NOT_FOUND
(KIP-848), v10 topics by id. This handler refuses partitions that do not exist; the coordinator does
the rest (core/group/offsets.py), and the answer waits until the records are safe.
"""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import chain
from typing import Any, Final

from pk.core.api.authorization import allows
from pk.core.api.long_requests import begin
from pk.core.api.registry import Answer, Api
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.machine import Decision
from pk.core.turns import Pace, Turns, at_once, emptied
from pk.core.values import Uuid
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_SINCE: Final = 10


def handle(context: Context, request: OffsetCommitRequest) -> Answer[OffsetCommitResponse]:
    """Sort out what does not exist, and let the group's coordinator decide about the rest."""
    return begin(_handle(context, request))


def _handle(
    context: Context, request: OffsetCommitRequest
) -> Turns[OffsetCommitResponse | Awaitable[OffsetCommitResponse]]:
    refused = yield from _refuse_missing(context, request)
    if refused and not request.topics:
        return OffsetCommitResponse(topics=refused)

    def decide(machine: GroupMachine, _: object, now_ms: int) -> Turns[Decision[Any]]:
        decision = yield from machine.commit(request, context.api_version, now_ms)
        if refused:
            decision.reply.topics = yield from _merged(refused, decision.reply.topics)
        return decision

    try:
        return context.broker.coordinators.submit(request.group_id, decide)
    except KafkaError as e:
        # What does not exist keeps its own error.
        failed = yield from _failed_all(request, e)
        failed.topics = yield from _merged(refused, failed.topics)
        return failed


def _refuse_missing(
    context: Context, request: OffsetCommitRequest
) -> Turns[list[OffsetCommitResponseTopic]]:
    """Take out of the request what does not exist, or may not be read; returns the answers to it.
    Names and ids are filled in."""
    image = context.broker.image
    by_id = context.api_version >= TOPIC_ID_SINCE
    pace = Pace()
    refused: list[OffsetCommitResponseTopic] = []
    kept: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        known = image.topic_by_id(topic.topic_id) if by_id else image.topics.get(topic.name)
        count = 0
        if known is not None:
            topic.name, topic.topic_id = known.name, known.topic_id
            count = len(known.partitions)
        unknown_id = by_id and known is None
        error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not unknown_id and not allows(context, Operation.READ, ResourceType.TOPIC, topic.name):
            error, count = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0
        there: list[OffsetCommitRequestPartition] = []
        missing: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            if 0 <= index < count:
                there.append(partition)
            else:
                missing.append(
                    OffsetCommitResponsePartition(partition_index=index, error_code=error)
                )
            if pace.due():
                yield
        if missing:
            refused.append(
                OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=missing
                )
            )
            topic.partitions = there
        if there or not missing:
            kept.append(topic)
    named, request.topics = request.topics, kept
    yield from emptied(named)
    return refused


def _merged(
    refused: list[OffsetCommitResponseTopic], decided: list[OffsetCommitResponseTopic]
) -> Turns[list[OffsetCommitResponseTopic]]:
    merged: dict[tuple[str, Uuid], OffsetCommitResponseTopic] = {}
    pace = Pace()
    for topic in chain(refused, decided):
        same = merged.setdefault((topic.name, topic.topic_id), topic)
        if same is not topic:
            same.partitions += topic.partitions
        if pace.due():
            yield
    return list(merged.values())


def _failed_all(request: OffsetCommitRequest, error: KafkaError) -> Turns[OffsetCommitResponse]:
    """Every partition with the same error."""
    response, pace = OffsetCommitResponse(), Pace()
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        for partition in topic.partitions:
            answer.partitions.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error.code
                )
            )
            if pace.due():
                yield
    return response


def _error_response(
    request: OffsetCommitRequest, error: KafkaError, version: int
) -> OffsetCommitResponse:
    return at_once(_failed_all(request, error))


API = Api(
    key=8,
    versions=(0, 10),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
