"""Undoes config changes: restores what each resource itself had set, key by key.

A key that the resource had not set is deleted, so that the lower layer (the cluster's default, the
broker's file) applies as before. Secrets cannot be read back, so a change to a secret cannot be
undone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pk.cli.cluster.configs import own_value
from pk.cli.cluster.propagation import until_configs
from pk.cli.cluster.remembered_configs import (
    remember_configs,
    resource_name,
    settle_configs,
    shown_value,
)
from pk.cli.exits import CommandError, Refused
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join
from pk.cli.runtime import undo_log as store
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase, sentence
from pk.cli.undo.rows import ConfigUndoRow
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)


def _resource(data: Mapping[str, Any]) -> ConfigResource:
    return ConfigResource(ResourceType(data["type"]), data["name"])


async def _describe(
    context: Context, resources: Iterable[Mapping[str, Any]]
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    """The current configs of the resources themselves, by key; resources that cannot be described
    are left out."""
    admin = await context.admin()
    answers = await admin.describe_configs([_resource(data) for data in resources])
    return {
        resource: {entry.name: entry for entry in answer} for resource, answer in answers.ok.items()
    }


ROW = ConfigUndoRow
"""The row types that undoing such a change shows."""


async def undo(context: Context, change: store.Change, *, anyway: bool) -> bool:
    """Show what each key is restored to, ask, and set it. Returns True once that is done.

    Raises Refused, without `anyway`, if a key was changed since.
    """
    resources = change.inverse["resources"]
    found = await _describe(context, resources)
    rows: list[ConfigUndoRow] = []
    todo: dict[ConfigResource, list[ConfigChange]] = {}
    for data in resources:
        resource = _resource(data)
        if resource not in found:
            raise CommandError(
                f"{resource_name(resource)} cannot be described; does it still exist?"
            )
        for key in data["keys"]:
            now = own_value(resource, found[resource].get(key["key"]))
            before = key["before"]
            since = now not in (key["after"], before)
            rows.append(
                {
                    "resource": resource_name(resource),
                    "key": key["key"],
                    "now": now,
                    "then": before,
                    "note": "changed since" if since else None,
                    "result": "stays" if now == before else "would be set",
                    "error": None,
                }
            )
            if now != before:
                how = ConfigOperation.DELETE if before is None else ConfigOperation.SET
                todo.setdefault(resource, []).append(ConfigChange(key["key"], before, how))
    return await _set_back(context, change, rows, todo, found, anyway=anyway)


async def _set_back(
    context: Context,
    change: store.Change,
    rows: list[ConfigUndoRow],
    todo: Mapping[ConfigResource, list[ConfigChange]],
    found: Mapping[ConfigResource, Mapping[str, ConfigEntry]],
    *,
    anyway: bool,
) -> bool:
    dry_run = context.change.dry_run
    since = [f"{row['key']} of {row['resource']}" for row in rows if row["note"]]
    if dry_run or not todo:
        context.show(listing(ROW, rows))
        context.say(
            "Nothing was changed." if todo else "Everything is as it was before; nothing to change."
        )
        return not todo and not dry_run
    if since and not anyway:
        raise Refused(
            f"{join(since)} {'was' if len(since) == 1 else 'were'} changed since; "
            "--dry-run shows it, --anyway undoes it regardless."
        )
    for row in rows:
        context.say(
            f"{row['resource']}: {row['key']}: "
            f"{shown_value(row['now'])} → {shown_value(row['then'])}"
        )
    number = count(sum(map(len, todo.values())), "config")
    await context.agree(f"Restore {number} on {context.settings.cluster_name}?")
    admin = await context.admin()
    described = {resource: list(found[resource].values()) for resource in todo}
    kept = await remember_configs(context, described, todo, undoes=change.id)
    answers = await admin.alter_configs(todo)
    failed = answers.errors
    await until_configs(admin, described, todo, failed)
    for row in rows:
        error = next(
            (e for res, e in failed.items() if resource_name(res) == row["resource"]), None
        )
        if row["result"] == "would be set":
            row["result"] = phrase(error) if error else "set"
            row["error"] = error_name(error) if error else None
    for resource, error in failed.items():
        context.fail(error)
        context.say(f"{resource_name(resource)}: {sentence(error)}")
    context.show(listing(ROW, rows))
    if kept is not None:
        settle_configs(kept, failed)
        if len(failed) < len(todo):
            context.say(store.how_to_undo(kept))
    return not failed
