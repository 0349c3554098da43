"""DescribeConfigs (32), versions 0–4: values with their sources and synonyms (KIP-133, KIP-226),
types and docs (KIP-569).

Resources are topics (2), brokers (4; "" is what the cluster keeps for all), loggers of this broker
(8), client metrics subscriptions (16) and groups (32). A broker answers for itself only. Secrets
are null.
"""

from collections.abc import Iterable, Mapping

from pk.core.api.authorization import check_configs
from pk.core.api.registry import Api
from pk.core.auth.acls import Operation
from pk.core.broker.requests import loggers
from pk.core.broker.requests.context import Context
from pk.core.broker.turns import pause
from pk.core.config import Type
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import configs, describe
from pk.core.meta.describe import Described, Source
from pk.core.meta.events import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.meta.topic_names import UNKNOWN_TOPIC, check_name
from pk.core.turns import Pace
from pk.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


async def handle(context: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource, or say why not."""
    response, pace = DescribeConfigsResponse(), Pace()
    for resource in request.resources:
        result = _resource(context, resource, request)
        response.results.append(result)
        if pace.due(1 + len(result.configs)):
            await pause()
    return response


def _resource(
    context: Context, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        # Kafka says "" and not null where nothing is wrong.
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        check_configs(context, Operation.DESCRIBE_CONFIGS, resource)
        if resource.resource_type == BROKER_LOGGER:
            _own_id(context, resource.resource_name, required=True)
            result.configs = _logger_entries(resource.configuration_keys, request)
        else:
            described = _described(context, resource)
            # An empty list of keys asks for all of them, as null does.
            keys = resource.configuration_keys or None
            result.configs = [_entry(d, request) for d in describe.chosen(described, keys)]
    except KafkaError as e:
        result.error_code, result.error_message = e.code, e.message
    return result


def _described(context: Context, resource: DescribeConfigsResource) -> Mapping[str, Described]:
    image, config = context.broker.image, context.broker.config
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC:
        check_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)
        return describe.describe_topic(image.topic_configs(name), config)
    if kind == BROKER:
        if _own_id(context, name, required=False) is None:
            return describe.describe_broker_default(image.broker_configs(None))
        return describe.describe_broker(config)
    if kind in (GROUP, CLIENT_METRICS):
        if not name:
            what = "Group" if kind == GROUP else "Client metrics subscription"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} name must not be empty")
        own = image.config(kind, name)
        if kind == GROUP:
            return describe.describe_group(own, config)
        return describe.describe_client_metrics(own)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _own_id(context: Context, name: str, *, required: bool) -> int | None:
    """The broker id that the resource names: this broker's. Raises KafkaError(INVALID_REQUEST)."""
    node = configs.check_broker_name(name, "Broker")
    if node is None and not required:
        return None
    own = context.broker.node_id
    if node != own:
        wanted = str(own) if required else f"{own} or empty string,"
        said = f"Unexpected broker id, expected {wanted} but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, said)
    return node


def _entry(described: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    key = described.key
    synonyms = described.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=key.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms
        ],
        config_type=key.type,
        documentation=key.doc if request.include_documentation else None,
    )


def _logger_entries(
    keys: Iterable[str] | None, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    wanted = set(keys or ())
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level,
            config_source=Source.BROKER_LOGGER,
            config_type=Type.UNKNOWN,
            documentation="" if request.include_documentation else None,
        )
        for name, level in loggers.levels().items()
        if not wanted or name in wanted
    ]


def error_response(
    request: DescribeConfigsRequest, error: KafkaError, version: int
) -> DescribeConfigsResponse:
    """The same error for every resource."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


API = Api(
    key=32,
    versions=(0, 4),
    handle=handle,
    error_response=error_response,
)
