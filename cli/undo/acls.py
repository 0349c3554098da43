"""Undoes changes of ACLs: deletes the added ones, and restores the deleted ones."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from pk.cli.cluster.acl_changes import apply, changed_row, only_resource, say_plan, show_changes
from pk.cli.cluster.acl_rows import ChangedAclRow
from pk.cli.phrases import count
from pk.cli.runtime import undo_log as store
from pk.cli.runtime.context import Context
from pk.core.auth.acls import AclBinding
from pk.net.client.admin import Admin
from pk.net.client.admin_operations.base import Failure

KIND = "acls"
ROW = ChangedAclRow
"""The row types that undoing such a change shows."""


async def remember(
    context: Context,
    admin: Admin,
    *,
    added: Sequence[AclBinding],
    deleted: Sequence[AclBinding],
    undoes: str | None = None,
) -> str | None:
    """Record how to undo that ACLs are added and deleted. Returns the id for `how_to_undo`."""
    said = [
        f"{count(len(rules), 'ACL')} {verb}"
        for rules, verb in ((added, "added"), (deleted, "deleted"))
        if rules
    ]
    inverse = _inverse(added, deleted)
    return await store.remember(context, admin, KIND, ", ".join(said), inverse, undoes=undoes)


def forget_failed(
    kept: str,
    added: Sequence[AclBinding],
    deleted: Sequence[AclBinding],
    failed: Container[AclBinding],
) -> bool:
    """Keep only the ACLs in the record that were actually changed. Returns False if there are
    none."""
    added = [rule for rule in added if rule not in failed]
    deleted = [rule for rule in deleted if rule not in failed]
    if not added and not deleted:
        store.forget(kept)
        return False
    store.narrow(kept, _inverse(added, deleted))
    return True


async def undo(context: Context, change: store.Change, *, anyway: bool) -> bool:
    """Show which ACLs are deleted and added again, ask, and do so. Returns True once that is
    done."""
    added, deleted = (
        [AclBinding(*each) for each in change.inverse[key]] for key in ("added", "deleted")
    )
    admin = await context.admin()
    there = set(await admin.describe_acls())
    deleting = [rule for rule in added if rule in there]
    adding = [rule for rule in deleted if rule not in there]
    dry_run = context.change.dry_run
    kept: str | None = None
    failed: Mapping[AclBinding, Failure] = {}
    if (adding or deleting) and not dry_run:
        for verb, rules in (("adds", adding), ("deletes", deleting)):
            if rules:
                say_plan(context, verb, rules)
        name = only_resource((*adding, *deleting))
        await context.agree(f"Undo it on {context.settings.cluster_name}?", name=name)
        kept = await remember(context, admin, added=adding, deleted=deleting, undoes=change.id)
        failed = await apply(context, admin, adding=adding, deleting=deleting)
    rows = [
        changed_row(rule, _result(verb, left, rule in todo, dry_run), failed.get(rule))
        for rules, todo, verb, left in (
            (added, deleting, "deleted", "not there"),
            (deleted, adding, "added", "exists already"),
        )
        for rule in rules
    ]
    show_changes(context, rows, failed)
    if kept is not None and forget_failed(kept, adding, deleting, failed):
        context.say(store.how_to_undo(kept))
    return not dry_run and not failed


def _result(done: str, left: str, changed: bool, dry_run: bool) -> str:
    if not changed:
        return left
    return f"would be {done}" if dry_run else done


def _inverse(added: Sequence[AclBinding], deleted: Sequence[AclBinding]) -> dict[str, Any]:
    return {
        "added": [list(map(_plain, rule)) for rule in added],
        "deleted": [list(map(_plain, rule)) for rule in deleted],
    }


def _plain(value: int | str) -> int | str:
    """A number as a plain int, since JSON has no enumerations."""
    return int(value) if isinstance(value, int) else value
