"""`pk acls`: lists, adds, deletes and checks the cluster's ACLs."""

from collections.abc import Sequence

from pk.cli.cluster.acl_changes import (
    acl_row,
    apply,
    changed_row,
    only_resource,
    say_plan,
    show_changes,
)
from pk.cli.cluster.acl_rows import AclRow, ChangedAclRow
from pk.cli.diagnosis.why_denied import ask_denied
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.acls.options import AddAcls, DeleteAcls, FilterAcls
from pk.cli.nouns.acls.rows import CheckedRow
from pk.cli.nouns.acls.selected import acl_filters, acls_to_add, selects_everything
from pk.cli.output.rows import listing
from pk.cli.runtime import undo_log
from pk.cli.runtime.context import Context
from pk.cli.undo.acls import forget_failed, remember
from pk.core.auth.acls import AclBinding, AclFilter
from pk.net.client.admin import Admin


async def list_acls(context: Context, options: FilterAcls) -> None:
    """Run `pk acls list`."""
    filters = acl_filters(options)
    rules = await _selected(await context.admin(), filters)
    context.show(listing(AclRow, [acl_row(rule) for rule in rules]))


async def add(context: Context, options: AddAcls) -> None:
    """Run `pk acls add`."""
    rules = acls_to_add(options)
    admin = await context.admin()
    there = set(await admin.describe_acls())
    new = [rule for rule in rules if rule not in there]
    if new:
        say_plan(context, "adds", new)
    await _change(context, admin, rules, adding=new, deleting=())


async def delete(context: Context, options: DeleteAcls) -> None:
    """Run `pk acls delete`."""
    filters = acl_filters(options)
    if selects_everything(filters):
        raise Unusable(
            "Give the ACLs to delete: a principal, an operation, a host or a resource. Nothing was "
            "deleted."
        )
    admin = await context.admin()
    rules = await _selected(admin, filters)
    if not rules:
        raise CommandError("No ACL matches; `pk acls list` shows them all.")
    say_plan(context, "deletes", rules)
    await _change(context, admin, rules, adding=(), deleting=rules)


async def check(
    context: Context, principal: str, operation: str, resource: str, host: str | None
) -> int:
    """Run `pk acls check`. Returns 0 if the operation is allowed, else 1."""
    question, explained = await ask_denied(context, principal, operation, resource, host)
    allowed = explained.state == "allowed"
    row: CheckedRow = {
        "principal": question.principal,
        "operation": question.operation.name,
        "resource": explained.subject,
        "host": question.host,
        "allowed": allowed,
        "verdict": explained.verdict,
    }
    context.show(listing(CheckedRow, [row]))
    return 0 if allowed else 1


async def _selected(admin: Admin, filters: Sequence[AclFilter]) -> list[AclBinding]:
    """The ACLs that any of the filters selects, sorted."""
    if len(filters) == 1:
        return await admin.describe_acls(filters[0])
    rules = await admin.describe_acls()
    return [rule for rule in rules if any(each.matches(rule) for each in filters)]


async def _change(
    context: Context,
    admin: Admin,
    rules: Sequence[AclBinding],
    *,
    adding: Sequence[AclBinding],
    deleting: Sequence[AclBinding],
) -> None:
    """Ask, make the changes, and show the result for all `rules`. Those in neither list exist
    already."""
    changing, done = {*adding, *deleting}, "added" if adding else "deleted"
    if context.change.dry_run:
        done = f"would be {done}"
    rows: list[ChangedAclRow] = [
        changed_row(rule, done if rule in changing else "exists already") for rule in rules
    ]
    if context.change.dry_run or not changing:
        context.show(listing(ChangedAclRow, rows))
        return
    verb = "Add" if adding else "Delete"
    await context.agree(f"{verb} on {context.settings.cluster_name}?", name=only_resource(changing))
    kept = await remember(context, admin, added=adding, deleted=deleting)
    failed = await apply(context, admin, adding=adding, deleting=deleting)
    for at, rule in enumerate(rules):
        if rule in failed:
            rows[at] = changed_row(rule, done, failed[rule])
    show_changes(context, rows, failed)
    if kept is not None and forget_failed(kept, adding, deleting, failed):
        context.say(undo_log.how_to_undo(kept))
