"""Explains why an operation is allowed or denied: the ACL that decides, or the one that is missing.

A client cannot read the brokers' `super.users` and `allow.everyone.if.no.acl.found`, so the verdict
names them if they may change the result.
"""

import shlex
from typing import Final, NamedTuple

from pk.cli.cluster.acl_words import (
    RESOURCE_OPTIONS,
    read_host,
    read_operation,
    read_principal,
    read_resource,
    show_resource,
)
from pk.cli.diagnosis.explain import Evidence, Explanation
from pk.cli.runtime.context import Context
from pk.core.auth.acls import (
    WILDCARD,
    AclBinding,
    AclFilter,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from pk.core.auth.authorizer import Authorizer, Reason

_SHOWN_MAX: Final = 20
"""The most ACLs for the resource that the evidence lists."""


class Question(NamedTuple):
    """The question whether a principal may perform an operation on a resource."""

    principal: str
    operation: Operation
    resource_type: ResourceType
    name: str
    host: str
    """An address, or `*`, for which only ACLs for all hosts match."""


async def ask_denied(
    context: Context, principal: str, operation: str, resource: str, host: str | None
) -> tuple[Question, Explanation]:
    """Read the question from the words of a command line, and answer it from the cluster's ACLs.
    Raises Unusable, KafkaError, ClientError."""
    kind, name = read_resource(resource)
    question = Question(
        read_principal(principal), read_operation(operation), kind, name, read_host(host)
    )
    admin = await context.admin()
    rules = await admin.describe_acls(AclFilter(resource_type=kind))
    return question, explain_denied(question, rules)


def explain_denied(question: Question, rules: list[AclBinding]) -> Explanation:
    """The verdict that follows from these ACLs."""
    acls = Acls().changed(rules, ())
    principal, operation, kind, name, host = question
    verdict = Authorizer(acls).decide(principal, host, operation, kind, name)
    resource = show_resource(kind, name)
    wish = f"{operation.name} on {resource}"
    about = [
        rule
        for rule in rules
        if any(
            (pattern, pattern_type) == (rule.resource_name, rule.pattern_type)
            for pattern, pattern_type, _ in acls.matching(kind, name)
        )
        and rule.resource_type == kind
    ]
    evidence = [Evidence(*_shown(rule, rule == verdict.rule)) for rule in about[:_SHOWN_MAX]]
    if len(about) > _SHOWN_MAX:
        evidence.append(Evidence("…", f"{len(about) - _SHOWN_MAX} more ACLs of {resource}"))
    if verdict.allowed and verdict.rule is not None:
        said = f"{principal} is allowed {wish}: an ACL for {verdict.rule.principal} allows it."
        return Explanation(resource, "allowed", said, evidence)
    evidence.append(
        Evidence("not visible to pk", "super.users of the brokers: a super user may do everything")
    )
    if verdict.rule is not None:
        said = f"{principal} is denied {wish}: an ACL for {verdict.rule.principal} denies it."
        return Explanation(resource, "denied", said, evidence, (_removal(verdict.rule),))
    if verdict.reason is Reason.NO_MATCH:
        said = (
            f"{principal} is denied {wish}: no ACL of {resource} is for this principal, operation "
            "and host."
        )
        return Explanation(resource, "no_match", said, evidence, (_addition(question),))
    evidence.append(
        Evidence(
            "not visible to pk",
            "allow.everyone.if.no.acl.found: if it is true, everyone is allowed",
        )
    )
    said = f"{principal} is denied {wish}: {resource} has no ACLs."
    return Explanation(resource, "no_rules", said, evidence, (_addition(question),))


def _shown(rule: AclBinding, decides: bool) -> tuple[str, str]:
    permission = Permission(rule.permission).name.lower()
    pattern = "prefix " if rule.pattern_type == PatternType.PREFIXED else ""
    host = "any host" if rule.host == WILDCARD else rule.host
    what = f"{Operation(rule.operation).name} on {pattern}{rule.resource_name} from {host}"
    return rule.principal, f"{permission} {what}{'  ← this one decides' if decides else ''}"


def _resource_words(kind: int, name: str) -> list[str]:
    if kind == ResourceType.CLUSTER:
        return ["--cluster"]
    return [RESOURCE_OPTIONS[ResourceType(kind)], name]


def _addition(question: Question) -> str:
    words = ["pk", "acls", "add", "--allow", question.principal]
    words += ["--operation", _option_value(question.operation)]
    words += _resource_words(question.resource_type, question.name)
    return shlex.join(words)


def _removal(rule: AclBinding) -> str:
    """The command that deletes only this ACL."""
    words = ["pk", "acls", "delete", "--deny", rule.principal, "--host", rule.host]
    words += ["--operation", _option_value(Operation(rule.operation))]
    words += _resource_words(rule.resource_type, rule.resource_name)
    words += ["--pattern", PatternType(rule.pattern_type).name.lower()]
    return shlex.join(words)


def _option_value(operation: Operation) -> str:
    """`describe-configs`."""
    return operation.name.lower().replace("_", "-")
