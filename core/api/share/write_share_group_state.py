"""WriteShareGroupState (85), versions 0–1: the leader of a partition stores the changes that
acknowledgements made (KIP-932)."""

from pk.core.broker.coordinator.share_state_requests import WRITE
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)


async def handle(
    context: Context, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    """Submit each share partition to its share coordinator."""
    return await context.broker.groups.share_coordinators.write(request)


error_response = WRITE.error_response
"""Returns the response with the same error for every share partition."""
