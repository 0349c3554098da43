"""ReadShareGroupState (84), version 0: a new leader of a partition loads its delivery state
(KIP-932)."""

from pk.core.broker.coordinator.share_state_requests import READ
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)


async def handle(
    context: Context, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    """Submit each share partition to its share coordinator."""
    return await context.broker.groups.share_coordinators.read(request)


error_response = READ.error_response
"""Returns the response with the same error for every share partition."""
