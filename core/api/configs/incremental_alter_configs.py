"""IncrementalAlterConfigs (44), versions 0–1: sets, deletes, appends to or subtracts from single
keys (KIP-339).

The controller changes topics, brokers, groups and client metrics subscriptions. Log levels belong
to this process (KIP-412): the broker changes them here, and they are lost when the process ends. It
forwards all other changes.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, cast

from pk.core.api.authorization import check_configs
from pk.core.api.controller import forward
from pk.core.api.controller.decide import submit_decision
from pk.core.auth.acls import Operation
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests import loggers
from pk.core.broker.requests.context import Context
from pk.core.config import BrokerConfig, ConfigError
from pk.core.config.log_limits import check_cleaners_change, check_cordoned
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import configs
from pk.core.meta.events import BROKER, BROKER_LOGGER
from pk.core.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class Change(Protocol):
    """A key in a request to alter configs."""

    name: str
    value: str | None


class Resource(Protocol):
    """A resource in such a request."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[Change]: ...


Check = Callable[[Context, Resource], None]
PassOn = Callable[
    [Context, IncrementalAlterConfigsRequest], Awaitable[IncrementalAlterConfigsResponse]
]


async def handle(
    context: Context, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change each resource, or return its error."""
    return await _handle(context, request, check_own_changes, forward.forward_to_controller)


async def handle_at_controller(
    context: Context, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Like `handle`, on a controller's listener and for brokers that forward the request: the keys
    of any broker may be changed."""
    return await _handle(context, request, check_own_loggers, _decide)


async def _decide(
    context: Context, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    config = context.broker.config
    return await submit_decision(
        context,
        lambda image: configs.incremental_alter(image, request, config),
        request,
    )


async def _handle(
    context: Context, request: IncrementalAlterConfigsRequest, check: Check, forward: PassOn
) -> IncrementalAlterConfigsResponse:
    local_responses: list[AlterConfigsResourceResponse] = []
    for_controller: list[AlterConfigsResource] = []
    for resource in request.resources:
        await let_others_run()
        try:
            check_configs(context, Operation.ALTER_CONFIGS, resource)
            check(context, resource)
            if resource.resource_type == BROKER_LOGGER:
                _alter_loggers(resource, validate_only=request.validate_only)
                local_responses.append(_answer(resource, None))
            else:
                for_controller.append(resource)
        except KafkaError as e:
            local_responses.append(_answer(resource, e))
    if not for_controller:
        return IncrementalAlterConfigsResponse(responses=local_responses)
    forwarded = IncrementalAlterConfigsRequest(
        resources=for_controller, validate_only=request.validate_only
    )
    response = await forward(context, forwarded)
    response.responses += local_responses
    return response


def check_own_loggers(context: Context, resource: Resource) -> None:
    """Raise KafkaError(INVALID_REQUEST) if the resource is the loggers of another process."""
    if resource.resource_type == BROKER_LOGGER:
        check_own_broker(context, resource.resource_type, resource.resource_name)


def check_own_changes(context: Context, resource: Resource) -> None:
    """Raise KafkaError(INVALID_REQUEST) if the resource is another broker, or if a change is
    impossible while this broker runs. Only this broker knows its directories and its current number
    of cleaners."""
    check_own_broker(context, resource.resource_type, resource.resource_name)
    if resource.resource_type != BROKER:
        return
    config = context.broker.config
    for change in resource.configs:
        operation = getattr(change, "config_operation", configs.Operation.SET)
        if change.value is None or operation == configs.Operation.DELETE:
            continue
        try:
            value = BrokerConfig({change.name: change.value})[change.name]
        except ConfigError:
            continue  # the controller returns the error
        try:
            if change.name == "log.cleaner.threads":
                check_cleaners_change(cast(int, value), config.log_cleaner_threads)
            elif change.name == "cordoned.log.dirs" and operation != configs.Operation.SUBTRACT:
                named = cast(tuple[str, ...], value)
                if operation == configs.Operation.APPEND:
                    named = (*cast(tuple[str, ...], config[change.name]), *named)
                check_cordoned(named, config.log_dirs)
        except ConfigError as e:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(e)) from e


def check_own_broker(context: Context, resource_type: int, name: str) -> None:
    """Raise KafkaError(INVALID_REQUEST) if the resource is another broker (or its loggers).

    Only a broker itself can validate its configs, so they must be sent to that broker.
    """
    if resource_type not in (BROKER, BROKER_LOGGER):
        return
    node, own = configs.check_broker_name(name), context.broker.node_id
    if node != own and not (node is None and resource_type == BROKER):
        requested = f"Unexpected broker id, expected {own}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, requested)


def _alter_loggers(resource: AlterConfigsResource, *, validate_only: bool) -> None:
    wanted: dict[str, str | None] = {}
    for change in resource.configs:
        if change.name in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the request has a logger twice")
        if change.config_operation == configs.Operation.SET:
            if change.value is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name} must have a level")
            wanted[change.name] = change.value
        elif change.config_operation == configs.Operation.DELETE:
            wanted[change.name] = None
        else:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "a level can only be set or deleted; it is not a list"
            )
        loggers.check(change.name, wanted[change.name])
    if not validate_only:
        for name, level in wanted.items():
            loggers.set_level(name, level)


def _answer(
    resource: AlterConfigsResource, error: KafkaError | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code if error is not None else 0,
        error_message=error.message if error is not None else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def error_response(
    request: IncrementalAlterConfigsRequest, error: KafkaError, version: int
) -> IncrementalAlterConfigsResponse:
    """Return the same error for every resource."""
    return IncrementalAlterConfigsResponse(
        responses=[_answer(resource, error) for resource in request.resources]
    )
