"""DescribeConfigs (32), versions 0–4: values with their sources and synonyms (KIP-133, KIP-226),
types and docs (KIP-569).

Resources are topics (2), brokers (4; "" is the cluster-wide default), loggers of this broker (8),
client metrics subscriptions (16) and groups (32). A broker describes only itself. Secrets are null.
"""

from __future__ import annotations

from collections.abc import Mapping

from pk.core.api.authorization import check_configs
from pk.core.auth.acls import Operation
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests import loggers
from pk.core.broker.requests.context import Context
from pk.core.config import Type
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import configs, describe
from pk.core.meta.describe import Described, Source
from pk.core.meta.events import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.meta.topic_names import UNKNOWN_TOPIC, check_name
from pk.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

Entries = list[DescribeConfigsResourceResult]


async def handle(context: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource, or return its error. A repeated resource is described once, with all
    requested keys: its name takes a few bytes, its description thousands."""
    resources: dict[tuple[int, str], DescribeConfigsResource] = {}
    for resource in request.resources:
        await let_others_run()
        first = resources.setdefault((resource.resource_type, resource.resource_name), resource)
        if first is not resource:
            # An empty list requests all keys, as null does.
            if first.configuration_keys and resource.configuration_keys:
                first.configuration_keys += resource.configuration_keys
            else:
                first.configuration_keys = None
    response = DescribeConfigsResponse()
    descriptions = _Descriptions(context, request)
    for resource in resources.values():
        result = _resource(context, resource, descriptions)
        response.results.append(result)
        await let_others_run()
    return response


def _resource(
    context: Context, resource: DescribeConfigsResource, descriptions: _Descriptions
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        # Without an error, Kafka returns "", not null.
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        check_configs(context, Operation.DESCRIBE_CONFIGS, resource)
        result.configs = descriptions.of(resource)
    except KafkaError as e:
        result.error_code, result.error_message = e.code, e.message
    return result


class _Descriptions:
    """Describes the resources of one request. Resources without their own configs share a
    description, since a request may name any number of groups that do not exist."""

    def __init__(self, context: Context, request: DescribeConfigsRequest) -> None:
        self._context = context
        self._request = request
        self.described: dict[tuple[int, str, frozenset[str]], Entries] = {}

    def of(self, resource: DescribeConfigsResource) -> Entries:
        """Return the entries of a resource. Raises KafkaError."""
        kind, keys = resource.resource_type, frozenset(resource.configuration_keys or ())
        subject = self._subject(kind, resource.resource_name)
        entries = self.described.get((kind, subject, keys))
        if entries is None:
            entries = self.described[kind, subject, keys] = self._entries(kind, subject, keys)
        return entries

    def _subject(self, kind: int, name: str) -> str:
        """Return the key of a shared description: the name of a resource with its own configs, ""
        for all other resources of a type. Raises KafkaError."""
        context = self._context
        image = context.broker.image
        if kind in (BROKER, BROKER_LOGGER):
            node = _own_id(context, name, required=kind == BROKER_LOGGER)
            return "" if node is None else str(node)
        if kind == TOPIC:
            check_name(name)
            if name not in image.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)
        elif kind not in (GROUP, CLIENT_METRICS):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
        elif not name:
            noun = "Group" if kind == GROUP else "Client metrics subscription"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{noun} name must not be empty")
        return name if image.config(kind, name) else ""

    def _entries(self, kind: int, subject: str, keys: frozenset[str]) -> Entries:
        if kind == BROKER_LOGGER:
            return _logger_entries(keys, self._request)
        described = _described(self._context, kind, subject)
        return [_entry(d, self._request) for d in describe.chosen(described, keys or None)]


def _described(context: Context, kind: int, subject: str) -> Mapping[str, Described]:
    image, config = context.broker.image, context.broker.config
    if kind == BROKER:
        if not subject:
            return describe.describe_broker_default(image.broker_configs(None))
        return describe.describe_broker(config)
    own = image.config(kind, subject)
    if kind == TOPIC:
        return describe.describe_topic(own, config)
    if kind == GROUP:
        return describe.describe_group(own, config)
    return describe.describe_client_metrics(own)


def _own_id(context: Context, name: str, *, required: bool) -> int | None:
    """Return the broker id in the resource's name, which must be this broker's. Raises
    KafkaError(INVALID_REQUEST)."""
    node = configs.check_broker_name(name, "Broker")
    if node is None and not required:
        return None
    own = context.broker.node_id
    if node != own:
        wanted = str(own) if required else f"{own} or empty string,"
        requested = f"Unexpected broker id, expected {wanted} but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, requested)
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
        documentation=(key.doc or None) if request.include_documentation else None,
    )


def _logger_entries(keys: frozenset[str], request: DescribeConfigsRequest) -> Entries:
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level,
            config_source=Source.BROKER_LOGGER,
            config_type=Type.UNKNOWN,
            documentation="" if request.include_documentation else None,
        )
        for name, level in loggers.levels().items()
        if not keys or name in keys
    ]


def error_response(
    request: DescribeConfigsRequest, error: KafkaError, version: int
) -> DescribeConfigsResponse:
    """Return the same error for every resource."""
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
