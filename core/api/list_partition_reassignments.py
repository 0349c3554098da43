"""ListPartitionReassignments (46), version 0: what is under way (KIP-455)."""

from pk.core.api.decide import LARGE_ELEMENTS, the_controller
from pk.core.api.registry import Api
from pk.core.broker.offload import offload
from pk.core.broker.requests.context import Context
from pk.core.meta import reassignment
from pk.core.wire.elements import has_many
from pk.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def handle(
    context: Context, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer from what is committed. Raises KafkaError(NOT_CONTROLLER)."""
    image = the_controller(context).image
    asked = image.partition_count if request.topics is None else 0
    if asked > LARGE_ELEMENTS or has_many(request, LARGE_ELEMENTS):
        return await offload(reassignment.list_reassignments, image, request)
    return reassignment.list_reassignments(image, request)


API = Api(key=46, versions=(0, 0), handle=handle, forwarded=True)
