"""OffsetDelete (47), version 0: forget committed offsets (KIP-496), of topics that no member is subscribed to."""

from __future__ import annotations

from typing import Any

from pk.core.api.registry import Api, Operation
from pk.core.broker.context import Context
from pk.core.errors import ErrorCode
from pk.core.group.machine import GroupMachine
from pk.core.machine import Decision
from pk.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(context: Context, request: OffsetDeleteRequest) -> Any:
    """Sort out topics that do not exist, and let the group's coordinator decide about the rest."""
    known = context.broker.image.topics
    refused = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=p.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                for p in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.name not in known
    ]
    request.topics = [topic for topic in request.topics if topic.name in known]

    def decide(machine: GroupMachine, _: object, now_ms: int) -> Decision[Any]:
        decision = machine.delete_offsets(request, now_ms)
        decision.reply.topics = refused + decision.reply.topics
        return decision

    return context.broker.coordinators.submit(request.group_id, decide)


API = Api(key=47, versions=(0, 0), handle=handle, operation=Operation.DELETE, parks=True)
