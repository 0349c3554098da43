"""ListPartitionReassignments (46), version 0: the moves in progress (KIP-455)."""

from pk.core.api.controller.decide import active_controller
from pk.core.broker.requests.context import Context
from pk.core.meta import reassignment
from pk.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    context: Context, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the moves in the committed image. Raises KafkaError(NOT_CONTROLLER)."""
    image = active_controller(context).image
    return reassignment.list_reassignments(image, request)
