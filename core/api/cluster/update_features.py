"""UpdateFeatures (57), versions 0–2: finalizes features, or disables them (KIP-584). v1 has an
upgrade type instead of a flag, and can validate only (KIP-778); v2 has one result for all features
(KIP-1022)."""

from pk.core.api.controller.decide import submit_decision
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.machine import Decision
from pk.core.meta import features
from pk.core.meta.events import Event
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


async def handle(context: Context, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Update all features or none. Raises KafkaError(NOT_CONTROLLER)."""

    def decide(image: MetadataImage) -> Decision[Event, UpdateFeaturesResponse]:
        return features.update_features(image, request, controller_id=context.broker.node_id)

    return await submit_decision(context, decide, request, request.timeout_ms)


def error_response(
    request: UpdateFeaturesRequest, error: KafkaError, version: int
) -> UpdateFeaturesResponse:
    """Return the error for the whole request; as in Kafka, no feature then has a result of its
    own."""
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
