"""LeaveGroup (13), versions 0–5: members leave, so that the other members need not wait for their
sessions to expire.

KIP-345 (v3: several members, static ones by instance id), KIP-800 (v5: reasons).
"""

from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(context: Context, request: LeaveGroupRequest) -> Answer[LeaveGroupResponse]:
    """Submit the request to the group's coordinator."""
    return context.broker.groups.coordinators.submit_nowait(
        request.group_id,
        lambda machine, _, now_ms: machine.leave(request, context.api_version, now_ms),
    )
