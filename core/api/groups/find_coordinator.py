"""FindCoordinator (10), versions 0–6: the broker that coordinates a group or a transactional id.

KIP-98 (v1: transactional ids), KIP-699 (v4: several keys), KIP-932 (v6: share groups). A group's
coordinator is the leader of its partition of `__consumer_offsets`, that of a transactional id of
`__transaction_state`, that of a share partition (its key is group:topic id:partition) of
`__share_group_state`. Each topic is created at its first use. Until the partition has a leader, the
response is COORDINATOR_NOT_AVAILABLE, and clients retry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pk.core.api.authorization import ERRORS, allows, check, is_on
from pk.core.auth.acls import CLUSTER_NAME, Operation, ResourceType
from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
from pk.core.broker.coordinator.share_coordinators import ShareCoordinators
from pk.core.broker.coordinator.transaction_coordinators import TransactionCoordinators
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.share.records import ShareKey
from pk.core.values import NO_NODE
from pk.core.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
SHARE_KEY: Final = 2
SEVERAL_KEYS_SINCE: Final = 4
SHARE_SINCE: Final = 6
KEYS_MAX: Final = 256
"""The maximum number of keys checked to determine whether a request may create the topic."""


_REFUSALS: Final = dict(ERRORS.values())

Coordinators = GroupCoordinators | TransactionCoordinators | ShareCoordinators


class _Coordinator(NamedTuple):
    node_id: int = NO_NODE
    host: str = ""
    port: int = -1
    error: ErrorCode = ErrorCode.NONE


_NOT_AVAILABLE: Final = _Coordinator(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
_UNKNOWN_TYPE: Final = _Coordinator(error=ErrorCode.INVALID_REQUEST)


async def handle(context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Look up each key; create the topic first if it is missing."""
    if request.key_type == GROUP_KEY:
        coordinators: Coordinators = context.broker.groups.coordinators
        needed = ResourceType.GROUP
    elif request.key_type == TRANSACTION_KEY:
        coordinators = context.broker.groups.transactions
        needed = ResourceType.TRANSACTIONAL_ID
    elif request.key_type == SHARE_KEY and context.api_version >= SHARE_SINCE:
        coordinators = context.broker.groups.share_coordinators
        needed = ResourceType.CLUSTER
        check(context, Operation.CLUSTER_ACTION, needed, CLUSTER_NAME)
    else:
        return await _answer(context, request, lambda key: _UNKNOWN_TYPE)

    def find(key: str) -> _Coordinator:
        if needed != ResourceType.CLUSTER and not allows(context, Operation.DESCRIBE, needed, key):
            return _Coordinator(error=ERRORS[needed][0])
        return _find(context, coordinators, key)

    if coordinators.topic not in context.broker.image.topics and _may_create(
        context, request, needed
    ):
        await coordinators.create_topic()
    return await _answer(context, request, find)


def _may_create(context: Context, request: FindCoordinatorRequest, needed: ResourceType) -> bool:
    """Return whether this request may create the topic: it must have a key that the client may
    use."""
    if needed == ResourceType.CLUSTER or not is_on(context):
        return True
    has_several = context.api_version >= SEVERAL_KEYS_SINCE
    return any(
        allows(context, Operation.DESCRIBE, needed, key, log=False)
        for key in (request.coordinator_keys[:KEYS_MAX] if has_several else [request.key])
    )


def _find(context: Context, coordinators: Coordinators, key: str) -> _Coordinator:
    broker = context.broker
    if coordinators is broker.groups.share_coordinators:
        try:
            ShareKey.of_coordinator_key(key)
        except ValueError:
            return _UNKNOWN_TYPE
    number = coordinators.partition_of(key)
    led = broker.state.leader_of(coordinators.topic, number) if number is not None else None
    node = broker.image.brokers.get(led[0]) if led is not None else None
    if node is None or node.fenced:
        return _NOT_AVAILABLE
    endpoint = node.endpoint(context.listener)
    if endpoint is None:
        return _NOT_AVAILABLE
    return _Coordinator(node.broker_id, endpoint.host, endpoint.port)


async def _answer(
    context: Context, request: FindCoordinatorRequest, find: Callable[[str], _Coordinator]
) -> FindCoordinatorResponse:
    if context.api_version < SEVERAL_KEYS_SINCE:
        return _single(find(request.key))
    response = FindCoordinatorResponse()
    for key in request.coordinator_keys:
        response.coordinators.append(_coordinator(key, find(key)))
        await let_others_run()
    return response


def _coordinator(key: str, found: _Coordinator, message: str | None = "") -> Coordinator:
    return Coordinator(
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=message,
    )


def _single(found: _Coordinator, message: str | None = None) -> FindCoordinatorResponse:
    if found.error in _REFUSALS:
        message = _REFUSALS[found.error]
    return FindCoordinatorResponse(
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=message or found.error.name,
    )


def error_response(
    request: FindCoordinatorRequest, error: KafkaError, version: int
) -> FindCoordinatorResponse:
    found = _Coordinator(error=ErrorCode(error.code))
    if version < SEVERAL_KEYS_SINCE:
        return _single(found, error.message)
    return FindCoordinatorResponse(
        coordinators=[_coordinator(key, found, error.message) for key in request.coordinator_keys]
    )
