"""DeleteTopics (20), versions 0–6: by name, from version 6 on also by id (KIP-516). Before version 3 there is no
TOPIC_DELETION_DISABLED (KIP-322): who may not delete asked for what cannot be."""

from typing import Final

from pk.core.api.decide import decided
from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import topics
from pk.core.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

_VERSION_DISABLED: Final = 3


async def handle(context: Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete what is named, each topic by itself."""
    config = context.broker.config
    response: DeleteTopicsResponse = await decided(
        context, lambda image: topics.delete_topics(image, request, config), request.timeout_ms
    )
    if context.api_version < _VERSION_DISABLED:
        for result in response.responses:
            if result.error_code == ErrorCode.TOPIC_DELETION_DISABLED:
                result.error_code = ErrorCode.INVALID_REQUEST
    return response


def error_response(
    request: DeleteTopicsRequest, error: KafkaError, version: int
) -> DeleteTopicsResponse:
    """The same error for every topic."""
    results = [DeletableTopicResult(name=name) for name in request.topic_names]
    results += [DeletableTopicResult(name=t.name, topic_id=t.topic_id) for t in request.topics]
    for result in results:
        result.error_code, result.error_message = error.code, error.message
    return DeleteTopicsResponse(responses=results)


API = Api(
    key=20,
    versions=(0, 6),
    handle=handle,
    error_response=error_response,
    forwarded=True,
)
