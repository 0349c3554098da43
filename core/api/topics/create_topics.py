"""CreateTopics (19), versions 0–7: KIP-4, validation only (v1), defaults by -1 (KIP-464, v4),
configs in the response (KIP-525, v5), topic ids (KIP-516, v7).

Each topic is created or refused separately. A broker that forwarded the request answers once it has
the topics (core/api/controller/forward.py), so that a client can produce to a topic as soon as it
gets the response.
"""

from typing import Final

from pk.core.api.authorization import allows, allows_cluster, is_on
from pk.core.api.controller.decide import submit_decision
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import topics
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_DENIED: Final = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")

_VERSION_STRICT_QUOTA: Final = 6
"""The first version whose clients know the error of the controller's quota (KIP-599)."""


async def handle(context: Context, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create the requested topics."""
    broker = context.broker
    denied = await _remove_denied(context, request)
    strict = context.api_version >= _VERSION_STRICT_QUOTA
    mutations = context.broker.client_quotas.mutations(context, strict=strict)
    response = await submit_decision(
        context,
        lambda image: topics.create_topics(image, request, broker.config, broker.random, mutations),
        request,
        request.timeout_ms,
    )
    if mutations is not None:
        response.throttle_time_ms = mutations.wait_ms()
    if is_on(context):
        for result in response.topics:
            await let_others_run()
            _hide_configs(context, result)
    response.topics += denied
    return response


async def _remove_denied(
    context: Context, request: CreateTopicsRequest
) -> list[CreatableTopicResult]:
    """Remove from the request the topics that the client may not create. Returns the results for
    them."""
    if not is_on(context) or allows_cluster(context, Operation.CREATE, log=False):
        return []
    kept: list[CreatableTopic] = []
    denied: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        await let_others_run()
        if allows(context, Operation.CREATE, ResourceType.TOPIC, topic.name):
            kept.append(topic)
        else:
            denied[topic.name] = _refused(topic.name, _DENIED)
    request.topics = kept
    return list(denied.values())


def _hide_configs(context: Context, result: CreatableTopicResult) -> None:
    """Remove the fields that require the right to describe the topic's configs."""
    if result.error_code or allows(
        context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name, log=False
    ):
        return
    result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    result.num_partitions = result.replication_factor = -1
    result.configs = []


def error_response(
    request: CreateTopicsRequest, error: KafkaError, version: int
) -> CreateTopicsResponse:
    """Return the same error for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=[_refused(name, error) for name in names])


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message, configs=[]
    )
