"""PkRestoreTopics (10003), version 0: creates topics of a lost cluster whose segments are in remote
storage."""

from pk.core.api.controller.decide import submit_decision
from pk.core.broker.requests.context import Context
from pk.core.meta.restored_topics import restore_topics
from pk.core.wire.messages.pk_restore_topics import (
    PkRestoreTopicsRequest,
    PkRestoreTopicsResponse,
)


async def handle(context: Context, request: PkRestoreTopicsRequest) -> PkRestoreTopicsResponse:
    """Create the topics. Raises KafkaError(NOT_CONTROLLER)."""
    broker = context.broker
    return await submit_decision(
        context,
        lambda image: restore_topics(image, request, broker.config, broker.random),
        request,
        request.timeout_ms,
    )
