"""How ACLs are written on a command line: reads and shows principals, operations, resources and
hosts."""

from ipaddress import ip_address
from typing import Final

from pk.cli.exits import Unusable
from pk.core.auth.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from pk.core.nearest import did_you_mean

RESOURCE_OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
"""The options of `pk acls` that name a resource. The cluster has no name, so its option is
`--cluster`."""


def read_principal(text: str) -> str:
    """Read a principal such as `User:alice`; a name alone is a user's. Raises Unusable."""
    kind, colon, name = text.partition(":")
    if not text or (colon and not (kind and name)):
        raise Unusable(f"A principal must be TYPE:NAME, such as User:alice, not {text!r}.")
    return text if colon else f"User:{text}"


def read_operation(text: str, *, or_all: bool = False) -> Operation:
    """Read an operation, as Apache's tools write it (`DescribeConfigs`) or as the protocol does
    (`describe_configs`). ALL is allowed only with `or_all`. Raises Unusable."""
    least = Operation.ALL if or_all else Operation.READ
    known = {one.name.replace("_", ""): one for one in Operation if one >= least}
    found = known.get(text.upper().replace("_", "").replace("-", ""))
    if found is None:
        names = [one.name.lower() for one in known.values()]
        hint = did_you_mean(text.lower(), names, f"; the operations are {', '.join(names)}.")
        raise Unusable(f"ACLs have no operation {text!r}{hint}")
    return found


def read_resource(text: str) -> tuple[ResourceType, str]:
    """Read the resource that TYPE:NAME names; a name without a type is a topic's. Raises
    Unusable."""
    if text == "cluster":
        return ResourceType.CLUSTER, CLUSTER_NAME
    kind, colon, name = text.partition(":")
    if not colon:
        return ResourceType.TOPIC, text
    types = {one.name.lower().replace("_", "-"): one for one in ResourceType if one > 1}
    found = types.get(kind.lower().replace("_", "-"))
    if found is None or found is ResourceType.CLUSTER or not name:
        raise Unusable(
            "RESOURCE must be cluster, or TYPE:NAME with one of the types "
            f"{', '.join(k for k in types if k != 'cluster')}, not {text!r}."
        )
    return found, name


def read_host(text: str | None) -> str:
    """Read the address of --host; without it, the wildcard, so that only ACLs for all hosts match.
    Raises Unusable."""
    if text is None:
        return WILDCARD
    try:
        return str(ip_address(text))
    except ValueError:
        raise Unusable(f"--host must be an IP address, as in an ACL, not {text!r}.") from None


def show_resource(kind: ResourceType, name: str) -> str:
    """A resource in a sentence: `topic orders`, `the cluster`."""
    if kind is ResourceType.CLUSTER:
        return "the cluster"
    return f"{kind.name.lower().replace('_', ' ')} {name}"


def resource_type_name(number: int) -> str:
    """`TRANSACTIONAL_ID`; UNKNOWN for a type that only a newer broker knows."""
    return ResourceType(number).name if number in set(ResourceType) else "UNKNOWN"


def pattern_type_name(number: int) -> str:
    """`LITERAL`; UNKNOWN for a type that only a newer broker knows."""
    return PatternType(number).name if number in set(PatternType) else "UNKNOWN"


def operation_name(number: int) -> str:
    """`DESCRIBE_CONFIGS`; UNKNOWN for an operation that only a newer broker knows."""
    return Operation(number).name if number in set(Operation) else "UNKNOWN"


def permission_name(number: int) -> str:
    """`ALLOW`; UNKNOWN for a permission that only a newer broker knows."""
    return Permission(number).name if number in set(Permission) else "UNKNOWN"


def show_acl(rule: AclBinding) -> str:
    """An ACL as a plan names it: `allow User:alice WRITE on topic orders`."""
    kind = resource_type_name(rule.resource_type).lower().replace("_", " ")
    pattern = "prefix " if rule.pattern_type == PatternType.PREFIXED else ""
    where = "" if rule.host == WILDCARD else f" from {rule.host}"
    named = (
        "the cluster"
        if rule.resource_type == ResourceType.CLUSTER
        else f"{kind} {pattern}{rule.resource_name}"
    )
    permission = permission_name(rule.permission).lower()
    return f"{permission} {rule.principal} {operation_name(rule.operation)} on {named}{where}"
