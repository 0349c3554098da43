"""OffsetCommit (8), versions 0–10: a consumer stores how far it has read.

Version 0 names no member (Kafka of that time wrote to ZooKeeper; here it is a commit from outside of the group), v1 brings
the time of each commit, versions 2–4 say how long to keep the offsets (KIP-186, KIP-211), v6 leader epochs (KIP-320), v7 static members (KIP-345), v9
GROUP_ID_NOT_FOUND (KIP-848), v10 topics by id. Partitions that do not exist are told so here; the rest is the coordinator's
(core/group/offsets.py), and the answer waits until the records are safe.
"""

from __future__ import annotations

from typing import Any, Final

from pk.core.api.registry import Answer, Api
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.machine import Decision
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_SINCE: Final = 10


def handle(context: Context, request: OffsetCommitRequest) -> Answer[OffsetCommitResponse]:
    """Sort out what does not exist, and let the group's coordinator decide about the rest."""
    refused = _refuse_missing(context, request)
    if refused and not request.topics:
        return OffsetCommitResponse(topics=refused)

    def decide(machine: GroupMachine, _: object, now_ms: int) -> Decision[Any]:
        decision = machine.commit(request, context.api_version, now_ms)
        if refused:
            decision.reply.topics = _merged(refused, decision.reply.topics)
        return decision

    try:
        return context.broker.coordinators.submit(request.group_id, decide)
    except KafkaError as e:
        # What does not exist keeps its own error.
        failed = _error_response(request, e, context.api_version)
        failed.topics = _merged(refused, failed.topics)
        return failed


def _refuse_missing(
    context: Context, request: OffsetCommitRequest
) -> list[OffsetCommitResponseTopic]:
    """Take out of the request what does not exist; returns the answers to it. Names and ids are filled in."""
    image = context.broker.image
    by_id = context.api_version >= TOPIC_ID_SINCE
    refused: list[OffsetCommitResponseTopic] = []
    kept: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        known = image.topic_by_id(topic.topic_id) if by_id else image.topics.get(topic.name)
        count = 0
        if known is not None:
            topic.name, topic.topic_id = known.name, known.topic_id
            count = len(known.partitions)
        missing = [p for p in topic.partitions if not 0 <= p.partition_index < count]
        if not missing:
            kept.append(topic)
            continue
        unknown_id = by_id and known is None
        error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused.append(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=p.partition_index, error_code=error
                    )
                    for p in missing
                ],
            )
        )
        topic.partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]
        if topic.partitions:
            kept.append(topic)
    request.topics = kept
    return refused


def _merged(
    refused: list[OffsetCommitResponseTopic], decided: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    merged = {(t.name, t.topic_id): t for t in refused}
    for topic in decided:
        same = merged.setdefault((topic.name, topic.topic_id), topic)
        if same is not topic:
            same.partitions += topic.partitions
    return list(merged.values())


def _error_response(
    request: OffsetCommitRequest, error: KafkaError, version: int
) -> OffsetCommitResponse:
    """Every partition with the same error."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=p.partition_index, error_code=error.code
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=8,
    versions=(0, 10),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
