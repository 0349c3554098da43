"""DescribeCluster (60), versions 0–2: brokers and controller (KIP-700), endpoint types (KIP-919,
v1), fenced brokers (KIP-1073, v2). A controller's listener returns controllers."""

from typing import Final

from pk.core.api.authorization import cluster_operations
from pk.core.api.authorized import NOT_ASKED
from pk.core.api.topics.metadata import controller_of
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(context: Context, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers of the image. Raises MISMATCHED_ENDPOINT_TYPE for a request for
    controllers, UNSUPPORTED_ENDPOINT_TYPE."""
    if request.endpoint_type == CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's endpoint, not a controller's"
        )
    if request.endpoint_type != BROKERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"no endpoint has type {request.endpoint_type}"
        )
    image = context.broker.image
    brokers: list[DescribeClusterBroker] = []
    for node in sorted(image.brokers):
        broker = image.brokers[node]
        endpoint = broker.endpoint(context.listener)
        if endpoint is not None and (request.include_fenced_brokers or not broker.fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=node,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
            )
    with_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=controller_of(context),
        brokers=brokers,
        cluster_authorized_operations=cluster_operations(context) if with_operations else NOT_ASKED,
    )


def handle_at_controller(
    context: Context, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the registered controllers and name the active one. Raises MISMATCHED_ENDPOINT_TYPE
    for a request for brokers, UNSUPPORTED_ENDPOINT_TYPE."""
    if request.endpoint_type == BROKERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a controller's endpoint, not a broker's"
        )
    if request.endpoint_type != CONTROLLERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"no endpoint has type {request.endpoint_type}"
        )
    image = context.broker.image
    with_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node, host=endpoint.host, port=endpoint.port)
            for node, known in sorted(image.controllers.items())
            for endpoint in known.endpoints
            if endpoint.name == context.listener
        ],
        cluster_authorized_operations=cluster_operations(context) if with_operations else NOT_ASKED,
    )
