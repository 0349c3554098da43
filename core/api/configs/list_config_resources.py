"""ListConfigResources (74), versions 0–1: the resources that have, or could have, configs. v0 is
KIP-714's list of client metrics subscriptions, v1 lists any type (KIP-1142)."""

from collections.abc import Iterable
from typing import Final

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.events import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_ALL: Final = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
_VERSION_TYPES: Final = 1


async def handle(
    context: Context, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources: all topics and brokers, and the groups and subscriptions with keys of
    their own.

    Raises UNSUPPORTED_VERSION for a type without configs, since a newer client may know more types.
    """
    types = set(request.resource_types) or set(_ALL)
    if context.api_version < _VERSION_TYPES:
        types = {CLIENT_METRICS}
    if not types.issubset(_ALL):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return await _list(context.broker.image, types)


async def _list(image: MetadataImage, types: set[int]) -> ListConfigResourcesResponse:
    response = ListConfigResourcesResponse()
    for kind in (k for k in _ALL if k in types):
        for name in await _names(image, kind):
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
            await let_others_run()
    return response


async def _names(image: MetadataImage, kind: int) -> Iterable[str]:
    """Return the names of one type, sorted."""
    if kind == TOPIC:
        return sorted(image.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return map(str, sorted(image.brokers))
    names: list[str] = []
    for each, name in image.configs:
        if each == kind:
            names.append(name)
        await let_others_run()
    return sorted(names)
