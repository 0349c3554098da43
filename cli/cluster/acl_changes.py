"""Adds and deletes ACLs, and shows the result for each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pk.cli.cluster.acl_rows import AclRow, ChangedAclRow
from pk.cli.cluster.acl_words import (
    operation_name,
    pattern_type_name,
    permission_name,
    resource_type_name,
    show_acl,
)
from pk.cli.cluster.propagation import until_acls
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.results import show_results
from pk.core.auth.acls import AclBinding, AclFilter
from pk.net.client.admin import Admin
from pk.net.client.admin_operations.base import Failure

_AT_ONCE: Final = 1_000
"""The most ACLs in one request: brokers limit the changes of a request."""

_SAID_MAX: Final = 20
"""The most ACLs that a plan names."""


def acl_row(rule: AclBinding) -> AclRow:
    """An ACL as a row."""
    return {
        "principal": rule.principal,
        "permission": permission_name(rule.permission),
        "operation": operation_name(rule.operation),
        "resource_type": resource_type_name(rule.resource_type),
        "resource": rule.resource_name,
        "pattern": pattern_type_name(rule.pattern_type),
        "host": rule.host,
    }


def changed_row(rule: AclBinding, result: str, error: Failure | None = None) -> ChangedAclRow:
    """The row of an ACL and the result of its change; for an error, the result is a phrase for
    it."""
    if error is None:
        return {**acl_row(rule), "result": result, "error": None}
    return {**acl_row(rule), "result": phrase(error), "error": error_name(error)}


def say_plan(context: Context, verb: str, rules: Sequence[AclBinding]) -> None:
    """Say `This adds 2 ACLs:`, and list the first of them."""
    context.say(f"This {verb} {count(len(rules), 'ACL')}:")
    for rule in rules[:_SAID_MAX]:
        context.say(f"  {show_acl(rule)}")
    if len(rules) > _SAID_MAX:
        context.say(f"  … and {len(rules) - _SAID_MAX} more")


def only_resource(rules: Iterable[AclBinding]) -> str | None:
    """The name of the only resource that these ACLs concern, for a guard that asks the user to type
    it; None if there are several."""
    names = {rule.resource_name for rule in rules}
    return names.pop() if len(names) == 1 else None


async def apply(
    context: Context, admin: Admin, *, adding: Sequence[AclBinding], deleting: Sequence[AclBinding]
) -> Mapping[AclBinding, Failure]:
    """Add and delete ACLs, and wait until the brokers have them. Returns the failures. Raises
    KafkaError."""
    failed: dict[AclBinding, Failure] = {}
    for start in range(0, len(adding), _AT_ONCE):
        answers = await admin.create_acls(adding[start : start + _AT_ONCE])
        failed |= answers.errors
    for start in range(0, len(deleting), _AT_ONCE):
        wanted = {AclFilter(*rule): rule for rule in deleting[start : start + _AT_ONCE]}
        deleted = await admin.delete_acls(list(wanted))
        failed |= {wanted[one]: error for one, error in deleted.errors.items()}
    await until_acls(
        admin,
        present=[rule for rule in adding if rule not in failed],
        absent=[rule for rule in deleting if rule not in failed],
    )
    for error in failed.values():
        context.fail(error)
    return failed


def show_changes(
    context: Context, rows: Sequence[ChangedAclRow], failed: Mapping[AclBinding, Failure]
) -> None:
    """Show the result for each ACL, and report the failures."""
    named = [(show_acl(rule), error) for rule, error in failed.items()]
    show_results(context, listing(ChangedAclRow, rows), named, "ACL")
