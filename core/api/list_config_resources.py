"""ListConfigResources (74), versions 0–1: what has, or could have, configs. v0 is KIP-714's list
of client metrics subscriptions, v1 lists any type (KIP-1142)."""

from typing import Final

from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.events import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_ALL: Final = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
_VERSION_TYPES: Final = 1


def handle(context: Context, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List them: all topics and brokers, those groups and subscriptions that have keys of their
    own.

    Raises UNSUPPORTED_VERSION for a type that has no configs: a newer client may know more.
    """
    types = set(request.resource_types) or set(_ALL)
    if context.api_version < _VERSION_TYPES:
        types = {CLIENT_METRICS}
    if not types.issubset(_ALL):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    image = context.broker.image
    found = [(TOPIC, name) for name in sorted(image.topics) if TOPIC in types]
    for kind in (BROKER, BROKER_LOGGER):
        found += [(kind, str(node)) for node in sorted(image.brokers) if kind in types]
    found += sorted(r for r in image.configs if r[0] in types and r[0] in (CLIENT_METRICS, GROUP))
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind, name in found
        ]
    )


API = Api(key=74, versions=(0, 1), handle=handle)
