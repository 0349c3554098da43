"""Checks of authentication and authorization: certificates, listeners, ACLs and users."""

from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Final

from pk.cli.cluster.acl_words import show_acl
from pk.cli.diagnosis.snapshot import (
    ERROR,
    NOTE,
    WARNING,
    ClusterSnapshot,
    Finding,
    brokers_named,
)
from pk.cli.phrases import count, join
from pk.cli.positions.times import show_span
from pk.core.auth.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from pk.core.auth.unsecured_tokens import UNSECURED

_ENDS_SOON_MS: Final = 30 * 86_400_000
_EVERYONE: Final = "User:*"
_WRITES: Final = (
    Operation.ALL,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
)
_NAMED: Final = 3
"""The most ACLs that a finding names."""


def certificates_end(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Certificates of brokers that have expired, or expire within 30 days."""
    for broker, end_ms in sorted(snapshot.certificate_ends.items()):
        left_ms = end_ms - snapshot.now_ms
        if left_ms >= _ENDS_SOON_MS:
            continue
        yield Finding(
            "certificates-end",
            ERROR if left_ms < 86_400_000 else WARNING,
            f"The certificate of broker {broker} expires in {show_span(max(left_ms, 0))}.",
            "Clients that verify it can then no longer connect. Replace the file: new connections "
            "use the new one at once.",
            f"pk configs describe broker {broker} ssl.keystore.location",
            (str(broker),),
        )


def public_plaintext(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Listeners without encryption on public addresses."""
    found: dict[str, list[int]] = {}
    for broker, known in snapshot.brokers.items():
        for name, protocol, host in _listeners(known.configs):
            if protocol in ("PLAINTEXT", "SASL_PLAINTEXT") and _is_public(host):
                found.setdefault(f"{name} ({protocol})", []).append(broker)
    for listener, brokers in sorted(found.items()):
        yield Finding(
            "public-plaintext",
            WARNING,
            (
                f"Listener {listener} of {brokers_named(brokers)} has a public address and no "
                "encryption."
            ),
            (
                "Anyone on the network path can read and change everything, including PLAIN "
                "passwords. Use SSL or SASL_SSL."
            ),
            f"pk configs describe broker {brokers[0]} listener.security.protocol.map",
            tuple(map(str, brokers)),
        )


def unsigned_tokens(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Brokers that take unsigned tokens of OAUTHBEARER."""
    brokers = [
        broker
        for broker, known in sorted(snapshot.brokers.items())
        if known.configs.get(UNSECURED) == "true"
    ]
    if brokers:
        named = brokers_named(brokers)
        yield Finding(
            "unsigned-tokens",
            WARNING,
            f"Unsigned tokens are accepted by {named}.",
            f"With {UNSECURED}=true, any OAUTHBEARER client can claim any name. Use it only for "
            "tests and development; otherwise set sasl.oauthbearer.jwks.endpoint.url.",
            f"pk configs describe broker {brokers[0]} {UNSECURED}",
            tuple(map(str, brokers)),
        )


def acls_without_resource(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """ACLs that match no topic: left over, or misspelled."""
    idle = [rule for rule in snapshot.acls if _is_idle(rule, snapshot)]
    if not idle:
        return
    rule = idle[0]
    pattern = " --pattern prefixed" if rule.pattern_type == PatternType.PREFIXED else ""
    yield Finding(
        "acls-without-resource",
        NOTE,
        f"{count(len(idle), 'ACL matches', 'ACLs match')} no topic: {_listed(idle)}.",
        (
            "They are left over from deleted topics, or misspelled: then they do not allow or "
            "deny what was intended."
        ),
        f"pk acls list --topic {rule.resource_name}{pattern}",
        tuple(dict.fromkeys(one.resource_name for one in idle)),
    )


def everyone_may_write(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """ACLs that let everyone change something."""
    open_ = [
        rule
        for rule in snapshot.acls
        if rule.permission == Permission.ALLOW
        and rule.principal == _EVERYONE
        and rule.operation in _WRITES
    ]
    if open_:
        yield Finding(
            "everyone-may-write",
            WARNING,
            (
                f"{count(len(open_), 'ACL lets', 'ACLs let')} everyone write or change something: "
                f"{_listed(open_)}."
            ),
            ("This includes clients without a login, if a listener requires none."),
            "pk acls list --principal 'User:*'",
            tuple(dict.fromkeys(one.resource_name for one in open_)),
        )


def users_without_password(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Users with ACLs who cannot log in, if all users log in by SCRAM."""
    users = snapshot.scram_users
    if not users or not _all_by_scram(snapshot):
        return
    named = {
        rule.principal.removeprefix("User:")
        for rule in snapshot.acls
        if rule.permission == Permission.ALLOW
        and rule.principal.startswith("User:")
        and rule.principal not in (_EVERYONE, "User:ANONYMOUS")
    }
    missing = sorted(named - users)
    if missing:
        yield Finding(
            "users-without-password",
            NOTE,
            f"{count(len(missing), 'user')} with ACLs cannot log in: {join(missing, 4)}.",
            "Every listener accepts only SCRAM, and they have no SCRAM password.",
            f"pk acls list --principal {missing[0]}",
            tuple(missing),
        )


def _is_idle(rule: AclBinding, snapshot: ClusterSnapshot) -> bool:
    if rule.resource_type != ResourceType.TOPIC or rule.resource_name == "*":
        return False
    if rule.pattern_type == PatternType.PREFIXED:
        return not any(name.startswith(rule.resource_name) for name in snapshot.topics)
    return rule.pattern_type == PatternType.LITERAL and rule.resource_name not in snapshot.topics


def _listed(rules: list[AclBinding]) -> str:
    return join([show_acl(rule) for rule in rules], _NAMED)


def _listeners(known: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(name, security protocol, host) of the listeners for clients and other brokers."""
    said = known.get("advertised.listeners") or known.get("listeners", "")
    protocols: dict[str, str] = {}
    for pair in known.get("listener.security.protocol.map", "").split(","):
        name, _, protocol = pair.strip().upper().rpartition(":")
        protocols[name] = protocol
    for one in said.split(","):
        name, separator, address = one.strip().partition("://")
        if separator:
            host = address.rpartition(":")[0].strip("[]")
            yield name.upper(), protocols.get(name.upper(), name.upper()), host


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return False  # a name may have different addresses there and here


def _all_by_scram(snapshot: ClusterSnapshot) -> bool:
    """Whether every known listener requires SCRAM."""
    ways: Counter[str] = Counter()
    for broker in snapshot.brokers.values():
        mechanisms = broker.configs.get("sasl.enabled.mechanisms", "")
        for _, protocol, _ in _listeners(broker.configs):
            ways.update(mechanisms.split(",") if protocol.startswith("SASL_") else [protocol])
    return bool(ways) and all(way.strip().startswith("SCRAM-") for way in ways)
