"""AlterConfigs (33), versions 0–2: replaces all keys of a resource (KIP-133). Clients should use
IncrementalAlterConfigs."""

from pk.core.api.decide import decided
from pk.core.api.incremental_alter_configs import ALTER_TIMEOUT_MS, check_own_broker
from pk.core.api.registry import Api, Operation
from pk.core.broker.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import configs
from pk.core.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(context: Context, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the keys of each resource, or say why not. Loggers know the incremental request
    only."""
    errors = {}
    for resource in request.resources:
        try:
            check_own_broker(context, resource.resource_type, resource.resource_name)
        except KafkaError as e:
            errors[id(resource)] = e
    asked = AlterConfigsRequest(
        resources=[r for r in request.resources if id(r) not in errors],
        validate_only=request.validate_only,
    )
    config = context.broker.config
    response: AlterConfigsResponse = await decided(
        context, lambda image: configs.alter(image, asked, config), ALTER_TIMEOUT_MS
    )
    for resource in request.resources:
        if (error := errors.get(id(resource))) is not None:
            response.responses.append(_refused(resource, error))
    return response


def _refused(resource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def error_response(
    request: AlterConfigsRequest, error: KafkaError, version: int
) -> AlterConfigsResponse:
    """The same error for every resource."""
    return AlterConfigsResponse(
        responses=[_refused(resource, error) for resource in request.resources]
    )


API = Api(
    key=33,
    versions=(0, 2),
    handle=handle,
    operation=Operation.ALTER_CONFIGS,
    error_response=error_response,
)
