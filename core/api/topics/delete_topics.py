"""DeleteTopics (20), versions 0–6: by name, from version 6 on also by id (KIP-516). Before version
3 there is no TOPIC_DELETION_DISABLED (KIP-322), and INVALID_REQUEST is returned instead."""

from typing import Final

from pk.core.api.authorization import allows, allows_cluster, is_on, refusal
from pk.core.api.controller.decide import active_controller, submit_decision
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import topics
from pk.core.values import Uuid
from pk.core.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_VERSION_DISABLED: Final = 3

_VERSION_STRICT_QUOTA: Final = 5
"""The first version whose clients know the error of the controller's quota (KIP-599)."""


async def handle(context: Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete each topic separately."""
    config = context.broker.config
    denied = await _remove_denied(context, request)
    strict = context.api_version >= _VERSION_STRICT_QUOTA
    mutations = context.broker.client_quotas.mutations(context, strict=strict)
    response = await submit_decision(
        context,
        lambda image: topics.delete_topics(image, request, config, mutations),
        request,
        request.timeout_ms,
    )
    if mutations is not None:
        response.throttle_time_ms = mutations.wait_ms()
    if context.api_version < _VERSION_DISABLED:
        for result in response.responses:
            if result.error_code == ErrorCode.TOPIC_DELETION_DISABLED:
                result.error_code = ErrorCode.INVALID_REQUEST
    response.responses += denied
    return response


async def _remove_denied(
    context: Context, request: DeleteTopicsRequest
) -> list[DeletableTopicResult]:
    """Remove from the request the topics that the client may not delete. Returns the results for
    them. A topic that the client may not describe is refused, whether it exists or not."""
    if not is_on(context) or allows_cluster(context, Operation.DELETE, log=False):
        return []
    image, kind = active_controller(context).image, ResourceType.TOPIC
    states = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    kept: list[DeleteTopicState] = []
    denied: dict[tuple[str | None, Uuid], DeletableTopicResult] = {}
    for state in states:
        await let_others_run()
        topic = image.topics.get(state.name) if state.name else image.topic_by_id(state.topic_id)
        name = state.name or (topic.name if topic is not None else None)
        may_describe = name is None or allows(context, Operation.DESCRIBE, kind, name)
        if may_describe and (
            topic is None or allows(context, Operation.DELETE, kind, name or topic.name)
        ):
            kept.append(state)
            continue
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        if may_describe and topic is not None:
            result.name = topic.name
        error = refusal(kind)
        result.error_code, result.error_message = error.code, error.message
        denied[result.name, result.topic_id] = result
    request.topics, request.topic_names = kept, []
    results = list(denied.values())
    return results


def error_response(
    request: DeleteTopicsRequest, error: KafkaError, version: int
) -> DeleteTopicsResponse:
    """Return the same error for every topic."""
    results = [DeletableTopicResult(name=name) for name in request.topic_names]
    results += [DeletableTopicResult(name=t.name, topic_id=t.topic_id) for t in request.topics]
    for result in results:
        result.error_code, result.error_message = error.code, error.message
    return DeleteTopicsResponse(responses=results)
