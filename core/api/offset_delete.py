"""OffsetDelete (47), version 0: forget committed offsets (KIP-496), of topics that no member is
subscribed to."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import chain
from typing import Any

from pk.core.api.authorization import allows
from pk.core.api.long_requests import begin
from pk.core.api.registry import Answer, Api
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.group.machine import GroupMachine
from pk.core.machine import Decision
from pk.core.turns import Pace, Turns, emptied
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
    return begin(_handle(context, request))


def _handle(
    context: Context, request: OffsetDeleteRequest
) -> Turns[OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]]:
    refused = yield from _refuse_missing(context, request)

    def decide(machine: GroupMachine, _: object, now_ms: int) -> Turns[Decision[Any]]:
        decision = yield from machine.delete_offsets(request, now_ms)
        merged: dict[str, OffsetDeleteResponseTopic] = {}
        pace = Pace()
        for topic in chain(refused, decision.reply.topics):
            same = merged.setdefault(topic.name, topic)
            if same is not topic:
                same.partitions += topic.partitions
            if pace.due():
                yield
        decision.reply.topics = list(merged.values())
        return decision

    return context.broker.coordinators.submit(request.group_id, decide)


def _refuse_missing(
    context: Context, request: OffsetDeleteRequest
) -> Turns[list[OffsetDeleteResponseTopic]]:
    """Take out of the request what does not exist, or may not be read; returns the answers to
    it."""
    image, pace = context.broker.image, Pace()
    refused: list[OffsetDeleteResponseTopic] = []
    kept: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        denied = not allows(context, Operation.READ, ResourceType.TOPIC, topic.name)
        there: list[OffsetDeleteRequestPartition] = []
        missing: list[OffsetDeleteResponsePartition] = []
        for p in topic.partitions:
            if not denied and image.partition(topic.name, p.partition_index) is not None:
                there.append(p)
            else:
                missing.append(
                    OffsetDeleteResponsePartition(
                        partition_index=p.partition_index,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                        if denied
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                )
            if pace.due():
                yield
        if missing:
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=missing))
        if there or not missing:
            kept.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        if pace.due():
            yield
    named, request.topics = request.topics, kept
    yield from emptied(named)
    return refused


API = Api(key=47, versions=(0, 0), handle=handle, parks=True)
