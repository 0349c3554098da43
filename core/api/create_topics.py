"""CreateTopics (19), versions 0–7: KIP-4, validation only (v1), defaults by -1 (KIP-464, v4),
configs in the answer (KIP-525, v5), topic ids (KIP-516, v7).

Each topic is created or refused by itself. A broker that passed the request on answers when it has the
topics (core/api/forward.py): a client that is told of a topic can produce to it at once.
"""

from pk.core.api.decide import decided
from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import topics
from pk.core.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(context: Context, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create what is asked for."""
    broker = context.broker
    return await decided(
        context,
        lambda image: topics.create_topics(image, request, broker.config, broker.random),
        request.timeout_ms,
    )


def error_response(
    request: CreateTopicsRequest, error: KafkaError, version: int
) -> CreateTopicsResponse:
    """The same error for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=name, error_code=error.code, error_message=error.message, configs=[]
            )
            for name in names
        ]
    )


API = Api(
    key=19,
    versions=(0, 7),
    handle=handle,
    error_response=error_response,
    forwarded=True,
)
