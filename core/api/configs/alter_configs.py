"""AlterConfigs (33), versions 0–2: replaces all keys of a resource (KIP-133). Clients should use
IncrementalAlterConfigs."""

from collections.abc import Awaitable, Callable

from pk.core.api.authorization import check_configs
from pk.core.api.configs.incremental_alter_configs import (
    Check,
    check_own_changes,
    check_own_loggers,
)
from pk.core.api.controller import forward
from pk.core.api.controller.decide import submit_decision
from pk.core.auth.acls import Operation
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import configs
from pk.core.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(context: Context, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the keys of each resource, or return its error. Loggers support only the incremental
    request."""
    return await _handle(context, request, check_own_changes, forward.forward_to_controller)


async def handle_at_controller(
    context: Context, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Like `handle`, on a controller's listener and for brokers that forward the request."""
    return await _handle(context, request, check_own_loggers, _decide)


async def _decide(context: Context, request: AlterConfigsRequest) -> AlterConfigsResponse:
    config = context.broker.config
    return await submit_decision(
        context, lambda image: configs.alter(image, request, config), request
    )


async def _handle(
    context: Context,
    request: AlterConfigsRequest,
    check: Check,
    forward: Callable[[Context, AlterConfigsRequest], Awaitable[AlterConfigsResponse]],
) -> AlterConfigsResponse:
    errors: dict[int, KafkaError] = {}
    for resource in request.resources:
        await let_others_run()
        try:
            check_configs(context, Operation.ALTER_CONFIGS, resource)
            check(context, resource)
        except KafkaError as e:
            errors[id(resource)] = e.with_traceback(None)  # it references this frame
    forwarded = AlterConfigsRequest(
        resources=[r for r in request.resources if id(r) not in errors],
        validate_only=request.validate_only,
    )
    response = await forward(context, forwarded) if forwarded.resources else AlterConfigsResponse()
    for resource in request.resources:
        await let_others_run()
        if (error := errors.get(id(resource))) is not None:
            response.responses.append(_refused(resource, error))
    return response


def _refused(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def error_response(
    request: AlterConfigsRequest, error: KafkaError, version: int
) -> AlterConfigsResponse:
    """Return the same error for every resource."""
    return AlterConfigsResponse(
        responses=[_refused(resource, error) for resource in request.resources]
    )
