"""Authorization with the semantics of Apache Kafka's StandardAuthorizer (KIP-801).

A super user may do everything. Otherwise the rules whose pattern, principal, host and operation
match decide: a rule that denies overrides all that allow. Without a rule for the resource the
answer is `allow.everyone.if.no.acl.found`; if there are rules but none matches, it is no.

Implied operations: a rule that allows READ, WRITE, DELETE or ALTER allows DESCRIBE; one that allows
ALTER_CONFIGS allows DESCRIBE_CONFIGS. A rule that denies implies nothing. ALL means every operation
in both cases.

An authorizer is immutable: new rules mean a new authorizer. So it may cache its answers, and
anything a broker derives from an answer holds as long as the authorizer is the same object.
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

REMEMBERED_MAX: Final = 50_000
"""How many answers an authorizer caches; beyond that, it drops them all."""

_DESCRIBE_IMPLIED_BY: Final = frozenset(
    (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
)
_DESCRIBE_CONFIGS_IMPLIED_BY: Final = frozenset(
    (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
)

_HARD_CODED_NAME: Final = "hardcode"
"""The topic with which Apache Kafka asks whether a principal may do something to any topic."""


class Reason(Enum):
    """The reason for an answer."""

    SUPER_USER = "super.users names the principal"
    RULE = "an ACL matches"
    NO_RULES = "the resource has no ACL"
    NO_MATCH = "no ACL of the resource matches"


class Verdict(NamedTuple):
    """An answer, and what decided it."""

    allowed: bool
    reason: Reason
    rule: AclBinding | None = None
    """The rule that decided; None unless `reason` is RULE."""


def implies(allowed: int, asked: int) -> bool:
    """Whether a rule that allows the operation `allowed` also allows `asked`."""
    if allowed in (asked, Operation.ALL):
        return True
    if asked == Operation.DESCRIBE:
        return allowed in _DESCRIBE_IMPLIED_BY
    return asked == Operation.DESCRIBE_CONFIGS and allowed in _DESCRIBE_CONFIGS_IMPLIED_BY


class Authorizer(Struct, frozen=True, eq=False):
    """Answers according to its rules."""

    acls: Acls = NO_ACLS
    super_users: frozenset[str] = frozenset()
    allow_if_no_acl: bool = False
    """`allow.everyone.if.no.acl.found`."""
    remembered: dict[tuple[str, str, int, int, str], bool] = field(
        default_factory=dict[tuple[str, str, int, int, str], bool]
    )
    """Cached answers by principal, host, operation, resource type, name."""

    def __repr__(self) -> str:
        return repr_without(self, "remembered")

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> bool:
        """Whether `principal` (`User:alice`) may do `operation` to a resource from `host`, an IP
        address without a zone."""
        key = (principal, host, operation, resource_type, name)
        remembered = self.remembered.get(key)
        if remembered is None:
            remembered = self.decide(principal, host, operation, resource_type, name).allowed
            if len(self.remembered) >= REMEMBERED_MAX:
                self.remembered.clear()
            self.remembered[key] = remembered
        return remembered

    def decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Verdict:
        """Like `allows`, but returns what decided."""
        if principal in self.super_users:
            return Verdict(True, Reason.SUPER_USER)
        allowing: AclBinding | None = None
        has_rules = False
        principals, hosts = (principal, WILDCARD_PRINCIPAL), _hosts(host)
        for pattern, pattern_type, entries in self.acls.about(resource_type, name):
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
        """Whether `principal` may do `operation` to at least one resource of a type (KIP-679): an
        idempotent producer must be allowed to write to some topic. Implied operations do not count
        here, as in Apache Kafka."""
        key = (principal, host, operation, -resource_type, "")
        remembered = self.remembered.get(key)
        if remembered is None:
            remembered = self._allows_any(principal, host, operation, resource_type)
            self.remembered[key] = remembered
        return remembered

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
        """The operations, out of those in a bitmap, that `principal` may perform on a resource, as
        a bitmap (KIP-430)."""
        found = 0
        for operation in Operation:
            bit = 1 << operation
            if supported & bit and self.allows(principal, host, operation, resource_type, name):
                found |= bit
        return found


def _hosts(host: str) -> tuple[str, ...]:
    """The names that a rule may use for a host: `*`, its address, and for an IPv6 address its other
    form, since Java (and so the rules of Kafka operators) writes `0:0:0:0:0:0:0:1` for `::1`."""
    if ":" not in host:
        return WILDCARD, host
    try:
        address = ip_address(host)
    except ValueError:
        return WILDCARD, host
    java = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return WILDCARD, host, address.compressed, java
