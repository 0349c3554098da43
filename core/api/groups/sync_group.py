"""SyncGroup (14), versions 0–5: the leader of a rebalance sends the assignments, and every member
gets its own.

KIP-345 (v3: static members), KIP-559 (v5: protocol type and name). The response waits for the
leader's assignments, and until their record is safe (core/group/classic/groups.py).
"""

from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(context: Context, request: SyncGroupRequest) -> Answer[SyncGroupResponse]:
    """Submit the request to the group's coordinator."""
    return context.broker.groups.coordinators.submit_nowait(
        request.group_id,
        lambda machine, token, now_ms: machine.sync(request, context.api_version, token, now_ms),
    )
