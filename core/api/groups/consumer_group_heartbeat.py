"""ConsumerGroupHeartbeat (68), versions 0–1: a member of a consumer group joins, reports its
subscription and partitions, learns its assignment, and leaves (KIP-848).

KIP-1082 (v1: the client generates its member id) and regular expressions (v1). Every heartbeat is
answered at once (core/group/consumer/groups.py).
"""

from __future__ import annotations

from collections.abc import Awaitable

from pk.core.api.authorization import check_subscription, describable_topics
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.group.settings import Client
from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    context: Context, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Submit the heartbeat to the group's coordinator."""
    client = Client(context.client_id or "", context.client_host, describable_topics(context))
    coordinators = context.broker.groups.coordinators
    coordinators.check_protocol(GroupType.CONSUMER)
    check_subscription(context, request.subscribed_topic_names)
    return coordinators.submit_nowait(
        request.group_id,
        lambda machine, _, now_ms: machine.consumer_heartbeat(
            request, context.api_version, client, now_ms
        ),
    )
