"""WriteTxnMarkers (27), versions 1–2: the leaders of partitions write a transaction coordinator's
markers (KIP-98). Version 2 has the protocol of the transaction (KIP-1228). Operators also use it to
end hanging transactions."""

from pk.core.api.authorization import allows_cluster, check
from pk.core.auth.acls import CLUSTER_NAME, Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def handle(context: Context, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write the markers, and wait until they are safe."""
    if not allows_cluster(context, Operation.ALTER, log=False):
        check(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    broker = context.broker
    timeout_ms = broker.config.request_timeout_ms
    return await broker.groups.markers.write(request, timeout_ms=timeout_ms)


def error_response(
    request: WriteTxnMarkersRequest, error: KafkaError, version: int
) -> WriteTxnMarkersResponse:
    """Return the same error for every partition of every marker."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=error.code
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
