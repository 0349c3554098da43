"""ReadShareGroupStateSummary (87), versions 0–1: the coordinator of a group reads the delivery
progress (KIP-932)."""

from pk.core.broker.coordinator.share_state_requests import READ_SUMMARY
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)


async def handle(
    context: Context, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    """Submit each share partition to its share coordinator."""
    return await context.broker.groups.share_coordinators.read_summary(request)


error_response = READ_SUMMARY.error_response
"""Returns the response with the same error for every share partition."""
