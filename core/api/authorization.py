"""Checks the permissions of clients, and builds refusals.

The table of APIs (core/api_keys.py) lists the permissions that each API needs. `check_needs`
refuses a whole request before its handler is called. Handlers make all other checks with `allows`
and `check`, because partial refusals are part of their responses.

A response must not reveal whether a topic, group or transaction exists if the client may not
describe it. Therefore a request that names the resource is checked before the look-up. A topic's id
is not secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from pk.core.api.authorized import CLUSTER_OPERATIONS
from pk.core.auth.acls import CLUSTER_NAME, Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.events import GROUP, TOPIC
from pk.core.needs import Need

_O, _R = Operation, ResourceType

T = TypeVar("T")

ERRORS: Final[Mapping[ResourceType, tuple[ErrorCode, str]]] = {
    _R.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    _R.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    _R.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    _R.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
    _R.DELEGATION_TOKEN: (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "Delegation Token authorization failed.",
    ),
}
"""The error and message for a refusal, by resource type, in Apache's words."""


_CONFIG_RESOURCES: Final = {TOPIC: _R.TOPIC, GROUP: _R.GROUP}


def allows(
    context: Context,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    log: bool = True,
) -> bool:
    """Return whether the client may do `operation` to a resource. A refusal is written to the audit
    log, unless `log` is False."""
    return context.broker.authorization.allows(context, operation, resource_type, name, log=log)


def allows_cluster(context: Context, operation: Operation, *, log: bool = True) -> bool:
    """Like `allows`, for the cluster."""
    return allows(context, operation, _R.CLUSTER, CLUSTER_NAME, log=log)


def check(context: Context, operation: Operation, resource_type: ResourceType, name: str) -> None:
    """Raise KafkaError with the error of the resource type if the client may not do `operation`."""
    if not allows(context, operation, resource_type, name):
        raise refusal(resource_type)


def refusal(resource_type: ResourceType) -> KafkaError:
    """Return the error for a refusal."""
    return KafkaError(*ERRORS[resource_type])


def is_on(context: Context) -> bool:
    """Return whether anything can be refused at all. If not, handlers need not filter their
    results."""
    return context.broker.authorization.authorizer is not None and not context.own


class ConfigResource(Protocol):
    """A resource with configs, as named in requests."""

    resource_type: int
    resource_name: str


def check_configs(context: Context, operation: Operation, resource: ConfigResource) -> None:
    """Raise KafkaError if the client may not do `operation` to the configs of a resource. The
    configs of resources other than topics and groups need rights to the cluster."""
    kind, name = _CONFIG_RESOURCES.get(resource.resource_type, _R.CLUSTER), resource.resource_name
    check(context, operation, kind, CLUSTER_NAME if kind is _R.CLUSTER else name)


async def split_topics(
    context: Context, operation: Operation, topics: Iterable[T], name_of: Callable[[T], str]
) -> tuple[list[T], list[T]]:
    """Return (the topics to which the client may do `operation`, the other topics)."""
    if not is_on(context):
        return list(topics), []
    allowed, denied = list[T](), list[T]()
    for topic in topics:
        await let_others_run()
        (allowed if allows(context, operation, _R.TOPIC, name_of(topic)) else denied).append(topic)
    return allowed, denied


def cluster_operations(context: Context) -> int:
    """Return the operations that the client may do to the cluster, as a bitmap (KIP-430); 0 if the
    client may not describe the cluster."""
    if not allows_cluster(context, _O.DESCRIBE):
        return 0
    return context.broker.authorization.operations(
        context, _R.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS
    )


def check_subscription(context: Context, topics: Iterable[str] | None) -> None:
    """Raise KafkaError(TOPIC_AUTHORIZATION_FAILED) if a member may not describe a topic to which it
    subscribes."""
    if topics is None or not is_on(context):
        return
    is_denied = False
    for name in dict.fromkeys(topics):
        if not allows(context, _O.DESCRIBE, _R.TOPIC, name):
            is_denied = True
    if is_denied:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def describable_topics(context: Context) -> Callable[[str], bool] | None:
    """Return a function that tells whether the client may describe a topic, or None if it may
    describe all topics. A group that resolves regular expressions for the client leaves out the
    other topics (KIP-848). These refusals are not written to the audit log."""
    if not is_on(context):
        return None
    return lambda name: allows(context, _O.DESCRIBE, _R.TOPIC, name, log=False)


def check_needs(context: Context, request: Any, needs: Iterable[Need]) -> None:
    """Raise KafkaError if the client lacks a permission that the whole request needs."""
    if context.broker.authorization.authorizer is None:
        return
    for need in needs:
        name = (getattr(request, need.of) or "") if need.of else CLUSTER_NAME
        if not allows(context, need.operation, need.resource_type, name):
            code, message = ERRORS[need.resource_type]
            raise KafkaError(code, None if need.silent else message)
