"""DeleteShareGroupState (86), version 0: the coordinator of a group deletes share partitions
(KIP-932)."""

from pk.core.broker.coordinator.share_state_requests import DELETE
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)


async def handle(
    context: Context, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    """Submit each share partition to its share coordinator."""
    return await context.broker.groups.share_coordinators.delete(request)


error_response = DELETE.error_response
"""Returns the response with the same error for every share partition."""
