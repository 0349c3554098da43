"""ShareGroupHeartbeat (76), version 1: a member of a share group joins, reports its subscription,
learns its assigned share partitions, and leaves (KIP-932)."""

from __future__ import annotations

from collections.abc import Awaitable

from pk.core.api.authorization import check_subscription
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.group.settings import Client
from pk.core.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def handle(
    context: Context, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    """Submit the heartbeat to the group's coordinator."""
    client = Client(context.client_id or "", context.client_host)
    coordinators = context.broker.groups.coordinators
    coordinators.check_protocol(GroupType.SHARE)
    check_subscription(context, request.subscribed_topic_names)
    return coordinators.submit_nowait(
        request.group_id,
        lambda machine, _, now_ms: machine.share_heartbeat(request, client, now_ms),
    )
