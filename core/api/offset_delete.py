"""OffsetDelete (47), version 0: forget committed offsets (KIP-496), of topics that no member is subscribed to."""

from __future__ import annotations

from typing import Any

from pk.core.api.registry import Answer, Api
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.group.machine import GroupMachine
from pk.core.machine import Decision
from pk.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(context: Context, request: OffsetDeleteRequest) -> Answer[OffsetDeleteResponse]:
    """Sort out what does not exist, and let the group's coordinator decide about the rest."""
    refused = _refuse_missing(context, request)

    def decide(machine: GroupMachine, _: object, now_ms: int) -> Decision[Any]:
        decision = machine.delete_offsets(request, now_ms)
        merged = {topic.name: topic for topic in refused}
        for topic in decision.reply.topics:
            same = merged.setdefault(topic.name, topic)
            if same is not topic:
                same.partitions += topic.partitions
        decision.reply.topics = list(merged.values())
        return decision

    return context.broker.coordinators.submit(request.group_id, decide)


def _refuse_missing(
    context: Context, request: OffsetDeleteRequest
) -> list[OffsetDeleteResponseTopic]:
    """Take out of the request what does not exist; returns the answers to it."""
    image = context.broker.image
    refused: list[OffsetDeleteResponseTopic] = []
    kept: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        there: list[OffsetDeleteRequestPartition] = []
        missing: list[OffsetDeleteResponsePartition] = []
        for p in topic.partitions:
            if image.partition(topic.name, p.partition_index) is not None:
                there.append(p)
            else:
                missing.append(
                    OffsetDeleteResponsePartition(
                        partition_index=p.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                )
        if missing:
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=missing))
        if there or not missing:
            kept.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
    request.topics = kept
    return refused


API = Api(key=47, versions=(0, 0), handle=handle, parks=True)
