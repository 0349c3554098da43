"""OffsetDelete (47), version 0: deletes committed offsets (KIP-496) of topics to which no member is
subscribed."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from pk.core.api.groups.offset_topics import build_commit_records, merged, remove_missing
from pk.core.broker.requests.context import Context
from pk.core.group.machine import GroupMachine
from pk.core.group.offsets import delete_records
from pk.core.machine import Decision
from pk.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(
    context: Context, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Filter out partitions that do not exist, and submit the rest to the group's coordinator."""
    refused = await remove_missing(context, request, _refused, OffsetDeleteResponsePartition)

    prepared_records = await build_commit_records(delete_records(request))

    def decide(
        machine: GroupMachine, _: object, now_ms: int
    ) -> Decision[Any, OffsetDeleteResponse]:
        decision = machine.delete_offsets(request, prepared_records, now_ms)
        decision.reply.topics = merged(refused, decision.reply.topics)
        return decision

    return context.broker.groups.coordinators.submit_nowait(request.group_id, decide)


def _refused(
    topic: OffsetDeleteRequestTopic, partitions: list[OffsetDeleteResponsePartition]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)
