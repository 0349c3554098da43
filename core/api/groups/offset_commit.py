"""OffsetCommit (8), versions 0–10: a consumer commits its offsets.

Version 0 has no member (Kafka then wrote to ZooKeeper; here the commit comes from outside the
group), v1 adds the time of each commit, versions 2–4 the retention of offsets (KIP-186, KIP-211),
v6 leader epochs (KIP-320), v7 static members (KIP-345), v9 GROUP_ID_NOT_FOUND (KIP-848), v10 topics
by id. This handler refuses partitions that do not exist. The coordinator does the rest
(core/group/offsets.py), and the response waits until the records are safe.
"""

from __future__ import annotations

from collections.abc import Awaitable
from operator import attrgetter
from typing import Any, Final

from pk.core.api.groups.offset_topics import build_commit_records, merged, remove_missing
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.group.offsets import commit_records
from pk.core.machine import Decision
from pk.core.meta.image import TopicImage
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_SINCE: Final = 10

_KEY: Final = attrgetter("name", "topic_id")


async def handle(
    context: Context, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Filter out partitions that do not exist, and submit the rest to the group's coordinator."""
    by_id = context.api_version >= TOPIC_ID_SINCE
    refused = await remove_missing(
        context, request, _refused, OffsetCommitResponsePartition, by_id=by_id, complete=_complete
    )
    if not request.topics:
        return OffsetCommitResponse(topics=merged(refused, [], _KEY))

    response, broker = OffsetCommitResponse(), context.broker
    metadata_max = broker.config.offset_metadata_max_bytes
    records = commit_records(request, metadata_max, broker.clock.now_ms(), response)
    prepared_records = await build_commit_records(records, response)

    def decide(
        machine: GroupMachine, _: object, now_ms: int
    ) -> Decision[Any, OffsetCommitResponse]:
        decision = machine.commit(request, context.api_version, prepared_records, now_ms)
        if refused:
            decision.reply.topics = merged(refused, decision.reply.topics, _KEY)
        return decision

    try:
        return broker.groups.coordinators.submit_nowait(request.group_id, decide)
    except KafkaError as e:
        # Partitions that do not exist keep their own error.
        failed = _failed_all(request, e)
        failed.topics = merged(refused, failed.topics, _KEY)
        return failed


def _complete(topic: OffsetCommitRequestTopic, known: TopicImage) -> None:
    topic.name, topic.topic_id = known.name, known.topic_id


def _refused(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitResponsePartition]
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def _failed_all(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """Return the same error for every partition."""
    response = OffsetCommitResponse()
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        for partition in topic.partitions:
            answer.partitions.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error.code
                )
            )
    return response


def error_response(
    request: OffsetCommitRequest, error: KafkaError, version: int
) -> OffsetCommitResponse:
    return _failed_all(request, error)
