"""InitializeShareGroupState (83), version 0: the coordinator of a group initializes share
partitions (KIP-932)."""

from pk.core.broker.coordinator.share_state_requests import INITIALIZE
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)


async def handle(
    context: Context, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    """Submit each share partition to its share coordinator."""
    return await context.broker.groups.share_coordinators.initialize(request)


error_response = INITIALIZE.error_response
"""Returns the response with the same error for every share partition."""
