"""AlterPartitionReassignments (45), versions 0–1: move replicas, or cancel moves (KIP-455). v1 can forbid
that the replication factor changes (KIP-860)."""

from pk.core.api.decide import decided
from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.meta import reassignment
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


async def handle(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin, change or cancel, each partition by itself. Raises KafkaError(NOT_CONTROLLER)."""
    config = context.broker.config
    return await decided(
        context,
        lambda image: reassignment.alter_reassignments(image, request, config),
        request.timeout_ms,
    )


API = Api(key=45, versions=(0, 1), handle=handle, forwarded=True)
