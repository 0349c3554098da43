"""CreatePartitions (37), versions 0–3: adds partitions to topics (KIP-195)."""

from typing import Final

from pk.core.api.authorization import split_topics
from pk.core.api.controller.decide import submit_decision
from pk.core.auth.acls import Operation
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import topics
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

_VERSION_STRICT_QUOTA: Final = 3
"""The first version whose clients know the error of the controller's quota (KIP-599)."""


async def handle(context: Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions to each topic separately."""
    random = context.broker.random
    request.topics, denied = await split_topics(
        context, Operation.ALTER, request.topics, lambda topic: topic.name
    )
    strict = context.api_version >= _VERSION_STRICT_QUOTA
    mutations = context.broker.client_quotas.mutations(context, strict=strict)
    response = await submit_decision(
        context,
        lambda image: topics.create_partitions(image, request, random, mutations),
        request,
        request.timeout_ms,
    )
    if mutations is not None:
        response.throttle_time_ms = mutations.wait_ms()
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for name in dict.fromkeys(topic.name for topic in denied):
        await let_others_run()
        response.results.append(
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=None)
        )
    return response


def error_response(
    request: CreatePartitionsRequest, error: KafkaError, version: int
) -> CreatePartitionsResponse:
    """Return the same error for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name, error_code=error.code, error_message=error.message
            )
            for name in names
        ]
    )
