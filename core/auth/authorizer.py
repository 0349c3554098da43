"""Authorization with the semantics of Apache Kafka's StandardAuthorizer (KIP-801).

A super user may do everything. Otherwise, the rules whose pattern, principal, host and operation
match decide: a rule that denies overrides all rules that allow. If no rule matches, the operation
is denied, except that `allow.everyone.if.no.acl.found` decides if the resource has no rules at all.

Implied operations: a rule that allows READ, WRITE, DELETE or ALTER allows DESCRIBE; one that allows
ALTER_CONFIGS allows DESCRIBE_CONFIGS. A rule that denies implies nothing. ALL means every operation
in both cases.

An authorizer is immutable, and new rules require a new one. It may therefore cache its decisions,
and anything that a broker derives from a decision is valid as long as the authorizer is the same
object.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple

from msgspec import Struct, field

from pk.core.auth.acls import (
    NO_ACLS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    Acls,
    Operation,
    PatternType,
    Permission,
)
from pk.core.structs import repr_without

CACHED_MAX: Final = 50_000
"""The maximum number of cached decisions. When it is reached, the cache is cleared."""

_DESCRIBE_IMPLIED_BY: Final = frozenset(
    (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
)
_DESCRIBE_CONFIGS_IMPLIED_BY: Final = frozenset(
    (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
)

_HARD_CODED_NAME: Final = "hardcode"
"""The topic name that Apache Kafka uses to check whether a principal may perform an operation on
any topic."""


class Reason(Enum):
    """The reason for a decision."""

    SUPER_USER = "super.users names the principal"
    RULE = "an ACL matches"
    NO_RULES = "the resource has no ACL"
    NO_MATCH = "no ACL of the resource matches"


class Verdict(NamedTuple):
    """A decision and its reason."""

    allowed: bool
    reason: Reason
    rule: AclBinding | None = None
    """The rule that decided, or None unless `reason` is RULE."""


def implies(allowed: int, asked: int) -> bool:
    """Whether a rule that allows the operation `allowed` also allows `asked`."""
    if allowed in (asked, Operation.ALL):
        return True
    if asked == Operation.DESCRIBE:
        return allowed in _DESCRIBE_IMPLIED_BY
    return asked == Operation.DESCRIBE_CONFIGS and allowed in _DESCRIBE_CONFIGS_IMPLIED_BY


class Authorizer(Struct, frozen=True, eq=False):
    """Decides which principals may perform which operations, according to its rules."""

    acls: Acls = NO_ACLS
    super_users: frozenset[str] = frozenset()
    allow_if_no_acl: bool = False
    """`allow.everyone.if.no.acl.found`."""
    decisions: dict[tuple[str, str, int, int, str], bool] = field(
        default_factory=dict[tuple[str, str, int, int, str], bool]
    )
    """Cached decisions by principal, host, operation, resource type and name."""

    def __repr__(self) -> str:
        return repr_without(self, "decisions")

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> bool:
        """Whether `principal` (`User:alice`) may perform `operation` on a resource from `host`, an
        IP address without a zone."""
        key = (principal, host, operation, resource_type, name)
        decision = self.decisions.get(key)
        if decision is None:
            decision = self.decide(principal, host, operation, resource_type, name).allowed
            if len(self.decisions) >= CACHED_MAX:
                self.decisions.clear()
            self.decisions[key] = decision
        return decision

    def decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Verdict:
        """Decide like `allows`, and return the reason too."""
        if principal in self.super_users:
            return Verdict(True, Reason.SUPER_USER)
        allowing: AclBinding | None = None
        has_rules = False
        principals, hosts = (principal, WILDCARD_PRINCIPAL), _hosts(host)
        for pattern, pattern_type, entries in self.acls.matching(resource_type, name):
            has_rules = True
            for who in principals:
                for of_rule, permission, where in entries.get(who, ()):
                    if where not in hosts:
                        continue
                    if permission == Permission.DENY:
                        if of_rule in (operation, Operation.ALL):
                            rule = (resource_type, pattern, pattern_type, who, where, of_rule)
                            return Verdict(False, Reason.RULE, AclBinding(*rule, permission))
                    elif allowing is None and implies(of_rule, operation):
                        rule = (resource_type, pattern, pattern_type, who, where, of_rule)
                        allowing = AclBinding(*rule, permission)
        if allowing is not None:
            return Verdict(True, Reason.RULE, allowing)
        if has_rules:
            return Verdict(False, Reason.NO_MATCH)
        return Verdict(self.allow_if_no_acl, Reason.NO_RULES)

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether `principal` may perform `operation` on at least one resource of a type (KIP-679).
        For example, an idempotent producer must be allowed to write to some topic. As in Apache
        Kafka, implied operations do not count."""
        key = (principal, host, operation, -resource_type, "")
        decision = self.decisions.get(key)
        if decision is None:
            decision = self._allows_any(principal, host, operation, resource_type)
            self.decisions[key] = decision
        return decision

    def _allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        if self.allows(principal, host, operation, resource_type, _HARD_CODED_NAME):
            return True
        denied: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        allowed: list[tuple[str, int]] = []
        hosts = _hosts(host)
        for name, pattern_type, entries in self.acls.of_type(resource_type):
            permissions = {
                permission
                for who in (principal, WILDCARD_PRINCIPAL)
                for of_rule, permission, where in entries.get(who, ())
                if where in hosts and of_rule in (operation, Operation.ALL)
            }
            if Permission.DENY in permissions:
                denied[pattern_type].add(name)
            if Permission.ALLOW in permissions:
                allowed.append((name, pattern_type))
        if WILDCARD in denied[PatternType.LITERAL]:
            return False
        if (WILDCARD, PatternType.LITERAL) in allowed:
            return True
        prefixes = denied[PatternType.PREFIXED]
        return any(
            not (pattern_type == PatternType.LITERAL and name in denied[PatternType.LITERAL])
            and not any(name[:length] in prefixes for length in range(1, len(name) + 1))
            for name, pattern_type in allowed
        )

    def operations(
        self, principal: str, host: str, resource_type: int, name: str, supported: int
    ) -> int:
        """Return a bitmap of those `operations`, also a bitmap, that `principal` may perform on a
        resource (KIP-430)."""
        found = 0
        for operation in Operation:
            bit = 1 << operation
            if supported & bit and self.allows(principal, host, operation, resource_type, name):
                found |= bit
        return found


def _hosts(host: str) -> tuple[str, ...]:
    """Return the names that a rule may have for a host: `*`, its address, and the other form of an
    IPv6 address, because Java, and therefore the rules of Kafka operators, has `0:0:0:0:0:0:0:1`
    for `::1`."""
    if ":" not in host:
        return WILDCARD, host
    try:
        address = ip_address(host)
    except ValueError:
        return WILDCARD, host
    java = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return WILDCARD, host, address.compressed, java
