"""The ACLs that options describe: those that `pk acls add` adds, and filters for `list` and
`delete`.

The conveniences, and the operations on each resource, are those of Apache's kafka-acls.
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from itertools import product
from typing import Final, NamedTuple

from pk.cli.cluster.acl_words import RESOURCE_OPTIONS, read_operation, read_principal
from pk.cli.exits import Unusable
from pk.cli.nouns.acls.options import AddAcls, Conveniences, DeleteAcls, FilterAcls, Resources
from pk.core.auth.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations on a resource; an ACL for another operation would have no effect."""

_PRODUCER: Final = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMER: Final = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}


class _Right(NamedTuple):
    """An operation on a resource; a filter may leave either open."""

    resource_type: ResourceType
    name: str | None
    operation: Operation


class _Party(NamedTuple):
    """A principal that is allowed or denied, and its host; a filter may leave either open."""

    principal: str | None
    host: str | None
    permission: Permission


def acls_to_add(options: AddAcls) -> list[AclBinding]:
    """The ACLs that `pk acls add` adds, each once. Raises Unusable."""
    parties: list[_Party] = []
    for option, principals, hosts, permission in (
        ("--allow", options.allow, options.allow_host, Permission.ALLOW),
        ("--deny", options.deny, options.deny_host, Permission.DENY),
    ):
        if hosts and not principals:
            raise Unusable(f"{option}-host needs {option} PRINCIPAL.")
        for principal, host in product(principals, (*options.host, *hosts) or (WILDCARD,)):
            parties.append(_Party(read_principal(principal), _address(host), permission))
    if not parties:
        raise Unusable("Give a principal: --allow PRINCIPAL or --deny PRINCIPAL.")
    rights = list(_rights_to_add(options))
    if not rights:
        raise Unusable(f"Give a resource: {', '.join(RESOURCE_OPTIONS.values())} or --cluster.")
    found = [
        AclBinding(
            right.resource_type,
            right.name or "",
            PatternType.LITERAL
            if right.resource_type is ResourceType.CLUSTER
            else PatternType[options.pattern.upper()],
            party.principal or "",
            party.host or "",
            right.operation,
            party.permission,
        )
        for right, party in product(rights, parties)
    ]
    return list(dict.fromkeys(found))


def acl_filters(options: FilterAcls) -> list[AclFilter]:
    """The ACLs that `pk acls list` and `delete` select, each once. Raises Unusable."""
    parties: list[_Party] = []
    for principals, hosts, permission in (
        (options.allow, options.allow_host, Permission.ALLOW),
        (options.deny, options.deny_host, Permission.DENY),
        (options.principal, (), Permission.ANY),
    ):
        if principals or hosts:
            who = [read_principal(principal) for principal in principals] or [None]
            where = (*options.host, *hosts) or (None,)
            parties += [_Party(*each, permission) for each in product(who, where)]
    if not parties:
        parties = [_Party(None, host, Permission.ANY) for host in options.host or (None,)]
    if isinstance(options, DeleteAcls) and _convenient(options):
        rights = list(_convenience(options, options))
    else:
        resources = _resources(options) or [(ResourceType.ANY, None)]
        rights = [
            _Right(*each, operation)
            for each in resources
            for operation in _operations(options.operation) or [Operation.ANY]
        ]
    found = [
        AclFilter(
            right.resource_type,
            right.name,
            _pattern_of(options, right),
            party.principal,
            party.host,
            right.operation,
            party.permission,
        )
        for right, party in product(rights, parties)
    ]
    return list(dict.fromkeys(found))


def _pattern_of(options: FilterAcls, right: _Right) -> PatternType:
    """The pattern type. Without --pattern, `delete` selects only ACLs for the literal name, as
    kafka-acls does, since ACLs for a prefix also concern other resources."""
    if options.pattern is not None:
        return PatternType[options.pattern.upper()]
    named = isinstance(options, DeleteAcls) and right.name is not None
    return PatternType.LITERAL if named else PatternType.ANY


def selects_everything(filters: Sequence[AclFilter]) -> bool:
    """Whether any filter selects all ACLs. A pattern alone does not narrow a selection."""
    return any(each._replace(pattern_type=PatternType.ANY) == AclFilter() for each in filters)


def _rights_to_add(options: AddAcls) -> Iterator[_Right]:
    if options.pattern == "prefixed" and WILDCARD in [name for _, name in _resources(options)]:
        raise Unusable("'*' means all names; leave out --pattern prefixed.")
    if _convenient(options):
        yield from _convenience(options, options)
        return
    operations = _operations(options.operation) or [Operation.ALL]
    for kind, name in _resources(options):
        for operation in operations:
            known = _OPERATIONS[kind]
            if operation is not Operation.ALL and operation not in known:
                names = ", ".join(one.name.lower().replace("_", "-") for one in known)
                raise Unusable(
                    f"A {kind.name.lower().replace('_', ' ')} has no operation {operation.name}; "
                    f"its operations are {names}, and all."
                )
            yield _Right(kind, name, operation)


def _convenient(options: Conveniences) -> bool:
    return options.producer or options.consumer or options.idempotent


def _convenience(options: AddAcls | DeleteAcls, resources: Resources) -> Iterator[_Right]:
    """The rights that --producer, --consumer and --idempotent grant. Raises Unusable for options
    that do not fit."""
    if options.idempotent and not options.producer:
        raise Unusable("--idempotent needs --producer.")
    said = "--producer" if options.producer else "--consumer"
    if options.operation:
        raise Unusable(f"{said} sets the operations; leave out --operation.")
    if options.deny or options.deny_host:
        raise Unusable(f"{said} adds rules that allow; leave out --deny.")
    if not resources.topic:
        raise Unusable(f"{said} needs --topic.")
    if options.consumer and not resources.group:
        raise Unusable("--consumer needs --group as well as --topic.")
    tables = [_PRODUCER] * options.producer + [_CONSUMER] * options.consumer
    for kind, name in _resources(resources):
        if not any(kind in table for table in tables):
            option = RESOURCE_OPTIONS.get(kind, "--cluster")
            raise Unusable(f"{said} does not use {option}; leave it out.")
        for table in tables:
            for operation in table.get(kind, ()):
                yield _Right(kind, name, operation)
    if options.idempotent:
        yield _Right(ResourceType.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE)


def _resources(options: Resources) -> list[tuple[ResourceType, str]]:
    named = (
        (ResourceType.TOPIC, options.topic),
        (ResourceType.GROUP, options.group),
        (ResourceType.TRANSACTIONAL_ID, options.transactional_id),
        (ResourceType.DELEGATION_TOKEN, options.delegation_token),
        (ResourceType.USER, tuple(read_principal(each) for each in options.user_principal)),
    )
    found = [(kind, name) for kind, names in named for name in names]
    for kind, name in found:
        if not name:
            raise Unusable(f"{RESOURCE_OPTIONS[kind]} needs a name.")
    if options.cluster:
        found.append((ResourceType.CLUSTER, CLUSTER_NAME))
    return found


def _operations(texts: Sequence[str]) -> list[Operation]:
    return [read_operation(text, or_all=True) for text in texts]


def _address(text: str) -> str:
    """The host of an ACL, unchanged, since Kafka compares it with addresses. Raises Unusable for a
    name."""
    if text != WILDCARD:
        try:
            ip_address(text)
        except ValueError:
            raise Unusable(
                f"The host of an ACL must be an IP address or '*', not {text!r}: brokers do not "
                "resolve names."
            ) from None
    return text
