"""What each API needs: the operation on the resource that the asker must be allowed, and what a
refusal looks like.

`NEEDS` is the table, API by API, as Apache Kafka 4.3.1 checks it. `guarded` puts the checks that
refuse a whole request before its handler; handlers make the others themselves, by `allows` and
`check`, because what is refused is a part of their answer.

An answer hides whether a topic, a group or a transaction exists that the asker may not describe. So
the check comes before the look-up wherever the request has the name. A topic's id is no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from pk.core.api.authorized import CLUSTER_OPERATIONS
from pk.core.api.registry import Answer, Api, Request, Response
from pk.core.auth.acls import CLUSTER_NAME, Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.events import GROUP, TOPIC
from pk.core.turns import Pace, Turns, once

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


class Refusal(Enum):
    """What becomes of a request that lacks something it needs."""

    REQUEST = "the whole request is refused before anything else is looked at"
    ANSWER = "the whole request is refused, by its handler"
    EACH = "what is about the resource is refused, the rest is not touched by it"
    HIDDEN = "what is about the resource is left out of the answer"


class Need(NamedTuple):
    """One thing that an API needs."""

    operation: Operation
    resource_type: ResourceType
    of: str
    """Where the request, or the answer, has the resource's name; "" for the cluster."""
    refusal: Refusal
    when: str = ""
    """The condition under which it is needed; "" always."""


def _cluster(operation: Operation, refusal: Refusal = Refusal.REQUEST, when: str = "") -> Need:
    return Need(operation, _R.CLUSTER, "", refusal, when)


def _topics(operation: Operation, of: str, refusal: Refusal = Refusal.EACH, when: str = "") -> Need:
    return Need(operation, _R.TOPIC, of, refusal, when)


def _group(operation: Operation, of: str = "group_id", refusal: Refusal = Refusal.REQUEST) -> Need:
    return Need(operation, _R.GROUP, of, refusal)


def _transaction(
    operation: Operation,
    of: str = "transactional_id",
    refusal: Refusal = Refusal.REQUEST,
    when: str = "",
) -> Need:
    return Need(operation, _R.TRANSACTIONAL_ID, of, refusal, when)


_CONFIG_RESOURCES: Final = {TOPIC: _R.TOPIC, GROUP: _R.GROUP}

_ALL: Final = "where all are asked for"
_NAMED: Final = "where they are named"
_NOT_OWN: Final = "for tokens of others; one of the two"
_DESCRIBED_TOPICS: Final = "members' topics"

NEEDS: Final[Mapping[int, tuple[Need, ...]]] = {
    0: (
        _transaction(_O.WRITE, refusal=Refusal.ANSWER, when="for transactional batches"),
        _topics(_O.WRITE, "topic_data[].name"),
    ),
    1: (
        _cluster(_O.CLUSTER_ACTION, Refusal.EACH, "for a replica or a controller"),
        _topics(_O.READ, "topics[].topic", when="for a consumer"),
    ),
    2: (_topics(_O.DESCRIBE, "topics[].name"),),
    3: (
        _topics(_O.DESCRIBE, "topics[].name", when=_NAMED),
        _topics(_O.DESCRIBE, "topics[].name", Refusal.HIDDEN, _ALL),
        _topics(
            _O.CREATE, "topics[].name", when="to create a missing one; or CREATE on the cluster"
        ),
        _cluster(_O.DESCRIBE, Refusal.HIDDEN, "for authorized operations on the cluster"),
    ),
    8: (_group(_O.READ), _topics(_O.READ, "topics[].name")),
    9: (
        _group(_O.DESCRIBE, "groups[].group_id", Refusal.EACH),
        _topics(_O.DESCRIBE, "topics[].name", when=_NAMED),
        _topics(_O.DESCRIBE, "topics[].name", Refusal.HIDDEN, _ALL),
    ),
    10: (
        _group(_O.DESCRIBE, "coordinator_keys[]", Refusal.EACH),
        _transaction(_O.DESCRIBE, "coordinator_keys[]", Refusal.EACH),
        _cluster(_O.CLUSTER_ACTION, Refusal.ANSWER, "for a share partition"),
    ),
    11: (_group(_O.READ),),
    12: (_group(_O.READ),),
    13: (_group(_O.READ),),
    14: (_group(_O.READ),),
    15: (_group(_O.DESCRIBE, "groups[]", Refusal.EACH),),
    16: (_group(_O.DESCRIBE, "groups[].group_id", Refusal.HIDDEN),),
    17: (),
    18: (),
    19: (
        _topics(_O.CREATE, "topics[].name", when="without CREATE on the cluster"),
        _topics(_O.DESCRIBE_CONFIGS, "topics[].name", Refusal.HIDDEN, "for the configs"),
    ),
    20: (
        _topics(_O.DELETE, "topics[].name", when="without DELETE on the cluster"),
        _topics(_O.DESCRIBE, "topics[].name"),
    ),
    21: (_topics(_O.DELETE, "topics[].name"),),
    22: (
        _transaction(_O.WRITE, refusal=Refusal.ANSWER, when="with a transactional id"),
        _cluster(
            _O.IDEMPOTENT_WRITE,
            Refusal.ANSWER,
            "without a transactional id; or WRITE on any topic",
        ),
    ),
    23: (_topics(_O.DESCRIBE, "topics[].topic", when="without CLUSTER_ACTION on the cluster"),),
    24: (
        _cluster(_O.CLUSTER_ACTION, Refusal.ANSWER, "from version 4 on"),
        _transaction(_O.WRITE, "v3_and_below_transactional_id", Refusal.ANSWER, "before version 4"),
        _topics(_O.WRITE, "v3_and_below_topics[].name", when="before version 4"),
    ),
    25: (_transaction(_O.WRITE), _group(_O.READ)),
    26: (_transaction(_O.WRITE),),
    27: (_cluster(_O.CLUSTER_ACTION, Refusal.ANSWER, "without ALTER on the cluster"),),
    28: (
        _transaction(_O.WRITE),
        _group(_O.READ),
        _topics(_O.READ, "topics[].name"),
    ),
    29: (_cluster(_O.DESCRIBE),),
    30: (_cluster(_O.ALTER),),
    31: (_cluster(_O.ALTER),),
    32: (
        _topics(_O.DESCRIBE_CONFIGS, "resources[].resource_name", when="for a topic"),
        _group(_O.DESCRIBE_CONFIGS, "resources[].resource_name", Refusal.EACH),
        _cluster(_O.DESCRIBE_CONFIGS, Refusal.EACH, "for anything else"),
    ),
    33: (
        _topics(_O.ALTER_CONFIGS, "resources[].resource_name", when="for a topic"),
        _group(_O.ALTER_CONFIGS, "resources[].resource_name", Refusal.EACH),
        _cluster(_O.ALTER_CONFIGS, Refusal.EACH, "for anything else"),
    ),
    34: (_cluster(_O.ALTER),),
    35: (_cluster(_O.DESCRIBE),),
    36: (),
    37: (_topics(_O.ALTER, "topics[].name"),),
    38: (Need(_O.CREATE_TOKENS, _R.USER, "owner", Refusal.ANSWER, "for another owner"),),
    39: (),
    40: (),
    41: (
        Need(_O.DESCRIBE, _R.DELEGATION_TOKEN, "tokens[].token_id", Refusal.HIDDEN, _NOT_OWN),
        Need(_O.DESCRIBE_TOKENS, _R.USER, "tokens[].owner", Refusal.HIDDEN, _NOT_OWN),
    ),
    42: (_group(_O.DELETE, "groups_names[]", Refusal.EACH),),
    43: (_cluster(_O.ALTER),),
    44: (
        _topics(_O.ALTER_CONFIGS, "resources[].resource_name", when="for a topic"),
        _group(_O.ALTER_CONFIGS, "resources[].resource_name", Refusal.EACH),
        _cluster(_O.ALTER_CONFIGS, Refusal.EACH, "for anything else"),
    ),
    45: (_cluster(_O.ALTER),),
    46: (_cluster(_O.DESCRIBE),),
    47: (_group(_O.DELETE), _topics(_O.READ, "topics[].name")),
    48: (_cluster(_O.DESCRIBE_CONFIGS),),
    49: (_cluster(_O.ALTER_CONFIGS),),
    50: (_cluster(_O.DESCRIBE),),
    51: (_cluster(_O.ALTER),),
    55: (_cluster(_O.DESCRIBE),),
    56: (_cluster(_O.CLUSTER_ACTION),),
    57: (_cluster(_O.ALTER),),
    58: (_cluster(_O.CLUSTER_ACTION),),
    59: (_cluster(_O.CLUSTER_ACTION),),
    60: (_cluster(_O.DESCRIBE, Refusal.HIDDEN, "for authorized operations"),),
    61: (_topics(_O.READ, "topics[].name"),),
    62: (_cluster(_O.CLUSTER_ACTION),),
    63: (_cluster(_O.CLUSTER_ACTION),),
    64: (_cluster(_O.ALTER),),
    65: (
        _transaction(_O.DESCRIBE, "transactional_ids[]", Refusal.EACH),
        _topics(_O.DESCRIBE, "transaction_states[].topics[].topic", Refusal.HIDDEN),
    ),
    66: (_transaction(_O.DESCRIBE, "transaction_states[].transactional_id", Refusal.HIDDEN),),
    67: (_cluster(_O.CLUSTER_ACTION),),
    68: (
        _group(_O.READ),
        _topics(_O.DESCRIBE, "subscribed_topic_names[]", Refusal.ANSWER),
    ),
    69: (
        _group(_O.DESCRIBE, "group_ids[]", Refusal.EACH),
        _topics(_O.DESCRIBE, _DESCRIBED_TOPICS),
    ),
    70: (_cluster(_O.CLUSTER_ACTION),),
    71: (),
    72: (),
    73: (_cluster(_O.CLUSTER_ACTION),),
    74: (_cluster(_O.DESCRIBE_CONFIGS),),
    75: (
        _topics(_O.DESCRIBE, "topics[].name", when=_NAMED),
        _topics(_O.DESCRIBE, "topics[].name", Refusal.HIDDEN, _ALL),
    ),
    76: (
        _group(_O.READ),
        _topics(_O.DESCRIBE, "subscribed_topic_names[]", Refusal.ANSWER),
    ),
    77: (
        _group(_O.DESCRIBE, "group_ids[]", Refusal.EACH),
        _topics(_O.DESCRIBE, _DESCRIBED_TOPICS),
    ),
    78: (_group(_O.READ), _topics(_O.READ, "topics[].topic_id")),
    79: (_group(_O.READ), _topics(_O.READ, "topics[].topic_id")),
    83: (_cluster(_O.CLUSTER_ACTION),),
    84: (_cluster(_O.CLUSTER_ACTION),),
    85: (_cluster(_O.CLUSTER_ACTION),),
    86: (_cluster(_O.CLUSTER_ACTION),),
    87: (_cluster(_O.CLUSTER_ACTION),),
    88: (
        _group(_O.READ),
        _topics(_O.DESCRIBE, "topology.subtopologies[].source_topics[]", Refusal.ANSWER),
        _topics(
            _O.CREATE,
            "topology.subtopologies[].state_changelog_topics[].name",
            Refusal.ANSWER,
            "to create a missing one; or CREATE on the cluster",
        ),
    ),
    89: (
        _group(_O.DESCRIBE, "group_ids[]", Refusal.EACH),
        _topics(_O.DESCRIBE, _DESCRIBED_TOPICS),
    ),
    90: (
        _group(_O.DESCRIBE, "groups[].group_id", Refusal.EACH),
        _topics(_O.DESCRIBE, "groups[].topics[].topic_name", when=_NAMED),
        _topics(_O.DESCRIBE, "groups[].topics[].topic_name", Refusal.HIDDEN, _ALL),
    ),
    91: (_group(_O.READ), _topics(_O.READ, "topics[].topic_name")),
    92: (_group(_O.DELETE), _topics(_O.READ, "topics[].topic_name")),
    10_000: (_cluster(_O.ALTER),),
    10_001: (_cluster(_O.CLUSTER_ACTION),),
    10_002: (_cluster(_O.ALTER),),
}
"""API key → what it needs, in the order in which it is asked."""


_WORDLESS: Final = frozenset({68, 76, 78, 79, 88})
"""APIs that refuse a group without a word, though they have a place for one."""


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


def check_subscription(context: Context, topics: Iterable[str] | None) -> Turns[None]:
    """Raises KafkaError(TOPIC_AUTHORIZATION_FAILED) where a member may not describe a topic that it
    subscribes to."""
    if topics is None or not is_on(context):
        return
    pace, is_denied = Pace(), False
    for name in once(topics):
        if not allows(context, _O.DESCRIBE, _R.TOPIC, name):
            is_denied = True
        if pace.due():
            yield
    if is_denied:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def describing(context: Context) -> Callable[[str], bool] | None:
    """Whether the asker may describe a topic, for a group that resolves regular expressions for it
    (KIP-848); None where it may describe all. What it may not describe is left out, without a word
    in the audit log."""
    if not is_on(context):
        return None
    return lambda name: allows(context, _O.DESCRIBE, _R.TOPIC, name, log=False)


def guarded(api: Api[Request, Response]) -> Api[Request, Response]:
    """`api`, whose handler is called once the asker has what the whole request needs."""
    needs = [need for need in NEEDS[api.key] if need.refusal is Refusal.REQUEST]
    if not needs:
        return api
    handle = api.handle

    def check_first(context: Context, request: Request) -> Answer[Response]:
        """Raises KafkaError for what is missing; else what the handler returns."""
        if context.broker.authorization.authorizer is not None:
            for operation, resource_type, of, _, _ in needs:
                name = (getattr(request, of) or "") if of else CLUSTER_NAME
                if not allows(context, operation, resource_type, name):
                    code, message = ERRORS[resource_type]
                    raise KafkaError(code, None if api.key in _WORDLESS else message)
        return handle(context, request)

    return replace(api, handle=check_first)
