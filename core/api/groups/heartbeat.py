"""Heartbeat (12), versions 0–4: a member reports that it is alive, and learns from the error code
when to join again.

KIP-345 (v3: static members). While the group's partition is being loaded, every heartbeat succeeds,
because the member's session starts again when loading ends.
"""

from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(context: Context, request: HeartbeatRequest) -> Answer[HeartbeatResponse]:
    """Submit the heartbeat to the group's coordinator."""
    try:
        return context.broker.groups.coordinators.submit_nowait(
            request.group_id, lambda machine, _, now_ms: machine.heartbeat(request, now_ms)
        )
    except KafkaError as e:
        if e.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()
        raise
