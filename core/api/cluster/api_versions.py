"""ApiVersions (18), versions 0–4: the APIs and features that this broker supports (KIP-35, KIP-511,
KIP-584).

The response to an unknown version is UNSUPPORTED_VERSION with the list, in version 0, so that the
client can repeat its request. The connection sends that response, because the rest of such a
request cannot be parsed. A feature is listed only once it is implemented, since clients use what is
listed.
"""

import re
from collections.abc import Sequence
from typing import Final

from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.features import SUPPORTED
from pk.core.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

VERSION_CLIENT_SOFTWARE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: Context, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    """List the supported APIs and features. `request` is None if it could not be parsed. Raises
    INVALID_REQUEST if the client's software name or version is invalid."""
    return _answer(context, request, context.broker.cluster.served)


def handle_at_controller(
    context: Context, request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Like `handle`, for a controller's listener."""
    return _answer(context, request, context.broker.cluster.controller_served)


def _answer(
    context: Context,
    request: ApiVersionsRequest | None,
    served: Sequence[tuple[int, int, int]],
) -> ApiVersionsResponse:
    if request is not None and context.api_version >= VERSION_CLIENT_SOFTWARE:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"invalid name or version of client software: {text!r}",
                )
        if context.broker.client_metrics is not None:
            context.broker.client_metrics.set_software(
                context.connection_id,
                request.client_software_name,
                request.client_software_version,
            )
    image = context.broker.image
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in served
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(image.features.items())
        ],
    )
