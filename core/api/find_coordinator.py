"""FindCoordinator (10), versions 0–6: which broker coordinates a group or a transactional id.

KIP-98 (v1: transactional ids), KIP-699 (v4: several keys), KIP-932 (v6: share groups). A group's coordinator is the leader of
its partition of `__consumer_offsets`, that of a transactional id of `__transaction_state`; each topic is created when it is
first asked for. Until the partition has a leader the answer is COORDINATOR_NOT_AVAILABLE, and clients ask again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pk.core.api.registry import Answer, Api
from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
from pk.core.broker.coordinator.transaction_coordinators import TransactionCoordinators
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import NO_NODE
from pk.core.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
SEVERAL_KEYS_SINCE: Final = 4


Coordinators = GroupCoordinators | TransactionCoordinators


class _Found(NamedTuple):
    node_id: int = NO_NODE
    host: str = ""
    port: int = -1
    error: ErrorCode = ErrorCode.NONE


_NOT_AVAILABLE: Final = _Found(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
_UNKNOWN_TYPE: Final = _Found(error=ErrorCode.INVALID_REQUEST)


def handle(context: Context, request: FindCoordinatorRequest) -> Answer[FindCoordinatorResponse]:
    """Look each key up; the topic is created first where it is missing."""
    if request.key_type == GROUP_KEY:
        coordinators: Coordinators = context.broker.coordinators
    elif request.key_type == TRANSACTION_KEY:
        coordinators = context.broker.transactions
    else:
        return _answer(context, request, lambda key: _UNKNOWN_TYPE)
    if coordinators.topic not in context.broker.image.topics:
        return _create_first(context, request, coordinators)
    return _answer(context, request, lambda key: _find(context, coordinators, key))


async def _create_first(
    context: Context, request: FindCoordinatorRequest, coordinators: Coordinators
) -> FindCoordinatorResponse:
    await coordinators.create_topic()
    return _answer(context, request, lambda key: _find(context, coordinators, key))


def _find(context: Context, coordinators: Coordinators, key: str) -> _Found:
    broker = context.broker
    number = coordinators.partition_of(key)
    led = broker.state.leader_of(coordinators.topic, number) if number is not None else None
    node = broker.image.brokers.get(led[0]) if led is not None else None
    if node is None or node.fenced:
        return _NOT_AVAILABLE
    endpoint = node.endpoint(context.listener)
    if endpoint is None:
        return _NOT_AVAILABLE
    return _Found(node.broker_id, endpoint.host, endpoint.port)


def _answer(
    context: Context, request: FindCoordinatorRequest, find: Any
) -> FindCoordinatorResponse:
    if context.api_version >= SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[_coordinator(key, find(key)) for key in request.coordinator_keys]
        )
    return _single(find(request.key))


def _coordinator(key: str, found: _Found, message: str | None = "") -> Coordinator:
    return Coordinator(
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=message,
    )


def _single(found: _Found, message: str | None = None) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=message or found.error.name,
    )


def _error_response(
    request: FindCoordinatorRequest, error: KafkaError, version: int
) -> FindCoordinatorResponse:
    found = _Found(error=ErrorCode(error.code))
    if version < SEVERAL_KEYS_SINCE:
        return _single(found, error.message)
    return FindCoordinatorResponse(
        coordinators=[_coordinator(key, found, error.message) for key in request.coordinator_keys]
    )


API = Api(
    key=10,
    versions=(0, 6),
    handle=handle,
    error_response=_error_response,
)
