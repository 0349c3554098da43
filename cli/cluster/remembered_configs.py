"""Records how to undo changes of configs (`pk.cli.undo.configs` undoes them)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pk.cli.cluster.configs import own_value
from pk.cli.phrases import join
from pk.cli.runtime import undo_log
from pk.cli.runtime.context import Context
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
)

KIND = "configs"


def resource_name(resource: ConfigResource) -> str:
    """The resource in a sentence: `topic orders`, `broker default`."""
    return f"{resource.type.name.lower().replace('_', '-')} {resource.name or 'default'}"


async def remember_configs(
    context: Context,
    described: Mapping[ConfigResource, Sequence[ConfigEntry]],
    changes: Mapping[ConfigResource, Iterable[ConfigChange]],
    *,
    undoes: str | None = None,
) -> str | None:
    """Record how to undo `changes`, which are about to be made. Returns the id for `how_to_undo`,
    or None if nothing could be undone.

    `described` is the current state.
    """
    resources: list[dict[str, Any]] = []
    for resource, wanted in changes.items():
        entries = {entry.name: entry for entry in described[resource]}
        keys = [
            {
                "key": change.name,
                "before": own_value(resource, entries.get(change.name)),
                "after": value_after(entries.get(change.name), change),
            }
            for change in wanted
            if not _is_secret(entries.get(change.name))
        ]
        if keys:
            resources.append({"type": int(resource.type), "name": resource.name, "keys": keys})
    if not resources:
        return None
    said = [f"{key['key']} = {shown_value(key['after'])}" for key in resources[0]["keys"]]
    names = [resource_name(resource) for resource in changes]
    return await undo_log.remember(
        context,
        await context.admin(),
        KIND,
        f"{f'undo of {undoes}: ' if undoes else ''}{join(names, 3)}: {join(said, 3)}",
        {"resources": resources},
        undoes=undoes,
    )


def value_after(entry: ConfigEntry | None, change: ConfigChange) -> str | None:
    """The resource's own value after the change; None if it has none."""
    if change.operation in (ConfigOperation.SET, ConfigOperation.DELETE):
        return change.value
    has = [v for v in (entry.value or "").split(",") if v] if entry else []
    named = (change.value or "").split(",")
    if change.operation is ConfigOperation.APPEND:
        return ",".join(has + [v for v in named if v not in has])
    return ",".join(v for v in has if v not in named)


def _is_secret(entry: ConfigEntry | None) -> bool:
    return entry is not None and entry.sensitive


def settle_configs(change_id: str, failed: Iterable[ConfigResource]) -> None:
    """Remove from a recorded change the resources that were not changed."""
    change = undo_log.find(change_id)
    lost = {(int(res.type), res.name) for res in failed}
    if not lost:
        return
    resources = [r for r in change.inverse["resources"] if (r["type"], r["name"]) not in lost]
    if resources:
        undo_log.narrow(change_id, {"resources": resources})
    else:
        undo_log.forget(change_id)


def shown_value(value: str | None) -> str:
    """A config's value in a sentence."""
    return "(not set)" if value is None else value or "(empty)"
