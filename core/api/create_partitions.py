"""CreatePartitions (37), versions 0–3: KIP-195. A topic's partitions only ever become more."""

from pk.core.api.decide import decided
from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import topics
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(context: Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions, for each topic by itself."""
    random = context.broker.random
    return await decided(
        context,
        lambda image: topics.create_partitions(image, request, random),
        request.timeout_ms,
    )


def error_response(
    request: CreatePartitionsRequest, error: KafkaError, version: int
) -> CreatePartitionsResponse:
    """The same error for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name, error_code=error.code, error_message=error.message
            )
            for name in names
        ]
    )


API = Api(
    key=37,
    versions=(0, 3),
    handle=handle,
    error_response=error_response,
    forwarded=True,
)
