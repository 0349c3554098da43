"""Checks what an asker may do, and says what a refusal looks like.

The table of APIs (core/api_keys.py) says what each needs. `check_needs` refuses a whole request
before its handler is called; handlers check the rest themselves, by `allows` and `check`, because
what is refused is a part of their answer.

An answer hides whether a topic, a group or a transaction exists that the asker may not describe. So
the check comes before the look-up wherever the request has the name. A topic's id is no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from pk.core.api.authorized import CLUSTER_OPERATIONS
from pk.core.auth.acls import CLUSTER_NAME, Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.events import GROUP, TOPIC
from pk.core.needs import Need

_O, _R = Operation, ResourceType

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
"""What a refusal says, in Apache's words."""


_CONFIG_RESOURCES: Final = {TOPIC: _R.TOPIC, GROUP: _R.GROUP}


def allows(
    context: Context,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    log: bool = True,
) -> bool:
    """Whether the asker may do `operation` to a resource. A refusal goes to the audit log, unless
    `log` is False."""
    return context.broker.authorization.allows(context, operation, resource_type, name, log=log)


def allows_cluster(context: Context, operation: Operation, *, log: bool = True) -> bool:
    """The same, of the cluster."""
    return allows(context, operation, _R.CLUSTER, CLUSTER_NAME, log=log)


def check(context: Context, operation: Operation, resource_type: ResourceType, name: str) -> None:
    """Raises KafkaError with the error of the resource type if the asker may not do `operation`."""
    if not allows(context, operation, resource_type, name):
        raise refusal(resource_type)


def refusal(resource_type: ResourceType) -> KafkaError:
    """The error that says so."""
    return KafkaError(*ERRORS[resource_type])


def is_on(context: Context) -> bool:
    """Whether anybody can be refused anything: for handlers that would have to sort what they
    name."""
    return context.broker.authorization.authorizer is not None and not context.own


class ConfigResource(Protocol):
    """What has configs, as the requests about them name it."""

    resource_type: int
    resource_name: str


def check_configs(context: Context, operation: Operation, resource: ConfigResource) -> None:
    """Raises KafkaError if the asker may not do `operation` to the configs of a resource: what is
    no topic and no group is a part of the cluster."""
    kind, name = _CONFIG_RESOURCES.get(resource.resource_type, _R.CLUSTER), resource.resource_name
    check(context, operation, kind, CLUSTER_NAME if kind is _R.CLUSTER else name)


def cluster_operations(context: Context) -> int:
    """What the asker may do to the cluster, as a bitmap (KIP-430); nothing, if it may not describe
    it."""
    if not allows_cluster(context, _O.DESCRIBE):
        return 0
    return context.broker.authorization.operations(
        context, _R.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS
    )


def check_subscription(context: Context, topics: Iterable[str] | None) -> None:
    """Raises KafkaError(TOPIC_AUTHORIZATION_FAILED) where a member may not describe a topic that it
    subscribes to."""
    if topics is None or not is_on(context):
        return
    is_denied = False
    for name in dict.fromkeys(topics):
        if not allows(context, _O.DESCRIBE, _R.TOPIC, name):
            is_denied = True
    if is_denied:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def describing(context: Context) -> Callable[[str], bool] | None:
    """Whether the asker may describe a topic, for a group that resolves regular expressions for it
    (KIP-848); None if it may describe all. What it may not describe is left out, without a word
    in the audit log."""
    if not is_on(context):
        return None
    return lambda name: allows(context, _O.DESCRIBE, _R.TOPIC, name, log=False)


def check_needs(context: Context, request: Any, needs: Iterable[Need]) -> None:
    """Raises KafkaError with what the whole request needs and its asker lacks."""
    if context.broker.authorization.authorizer is None:
        return
    for need in needs:
        name = (getattr(request, need.of) or "") if need.of else CLUSTER_NAME
        if not allows(context, need.operation, need.resource_type, name):
            code, message = ERRORS[need.resource_type]
            raise KafkaError(code, None if need.silent else message)
