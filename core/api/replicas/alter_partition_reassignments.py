"""AlterPartitionReassignments (45), versions 0–1: moves replicas, or cancels moves (KIP-455). v1
can forbid changes of the replication factor (KIP-860)."""

from pk.core.api.controller.decide import submit_decision
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import reassignment
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Start, change or cancel the move of each partition separately. Raises
    KafkaError(NOT_CONTROLLER)."""
    config = context.broker.config
    return await submit_decision(
        context,
        lambda image: reassignment.alter_reassignments(image, request, config),
        request,
        request.timeout_ms,
    )


def error_response(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, version: int
) -> AlterPartitionReassignmentsResponse:
    """Return the error for the whole request, and for each partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
