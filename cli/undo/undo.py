"""`pk undo` and `pk groups undo`: finds the change, checks that it belongs to this cluster, and
undoes it."""

import importlib
from collections.abc import Awaitable
from typing import Protocol

from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.output.formats import narrow
from pk.cli.output.rows import listing
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_span
from pk.cli.runtime import undo_log as store
from pk.cli.runtime.context import Context
from pk.cli.undo.change_list import show_changes

KINDS = {
    "group-offsets": "pk.cli.undo.offsets:undo",
    "configs": "pk.cli.undo.configs:undo",
    "acls": "pk.cli.undo.acls:undo",
    "quotas": "pk.cli.undo.quotas:undo",
    "users": "pk.cli.undo.users:undo",
}
"""Kind of change → its `Undo`, imported when it is needed."""


class Undo(Protocol):
    """Shows what undoing a change does, asks, and does it. Returns True once that is done."""

    def __call__(
        self, context: Context, change: store.Change, *, anyway: bool
    ) -> Awaitable[bool]: ...


async def undo(
    context: Context,
    *,
    change_id: str | None,
    anyway: bool,
    list_all: bool = False,
    kind: str | None = None,
) -> None:
    """Run `pk undo`: list the changes that can be undone, or undo one. A `kind` limits it to
    changes of that kind.

    `change_id` is a number from `pk undo --list`, or `last`; None lists the changes that can be
    undone. `list_all` lists the others too. `anyway` also undoes values that have changed since.
    """
    dry_run = context.change.dry_run
    if list_all:
        if change_id is not None or context.change.yes or dry_run or anyway:
            raise Unusable("--list undoes nothing; leave it out to undo a change.")
        show_changes(context, store.history())
        return
    if change_id is None:
        if context.change.yes or dry_run or anyway:
            raise Unusable("Give a change: `pk undo last`, or an ID of `pk undo`.")
        left = [c for c in store.history() if c.undone_ms is None and kind in (None, c.kind)]
        show_changes(context, left)
        context.say("`pk undo ID` undoes a change." if left else "Nothing to undo.")
        return
    change = None if change_id == "last" else store.find(change_id, kind)
    here = await store.cluster_id_of(await context.admin())
    change = change or store.last(here, kind)
    if not dry_run:
        context.allow()
    if change.undone_ms is not None and not anyway:
        raise Refused(
            f"Change {change.id} was undone {show_span(now_ms() - change.undone_ms)} ago; "
            "--anyway undoes it again."
        )
    _check_cluster(context, change, here)
    if change.kind not in KINDS:
        raise CommandError(
            f"Change {change.id} ({change.description}) was made by another version of pk; only "
            "that version can undo it."
        )
    module, _, name = KINDS[change.kind].partition(":")
    loaded = importlib.import_module(module)
    # Invalid output options are refused before anything is undone.
    narrow(listing(loaded.ROW, ()), context.output)
    run: Undo = getattr(loaded, name)
    age = show_span(now_ms() - change.made_ms)
    context.say(f"Change {change.id}, {age} ago: {change.description}.")
    if await run(context, change, anyway=anyway):
        try:
            store.mark_undone(change.id, now_ms())
        except OSError as e:
            context.say(
                f"Change {change.id} is undone, but that could not be recorded "
                f"({e.strerror or e}): do not undo it again."
            )


async def undo_groups(context: Context, *, change_id: str | None, anyway: bool) -> None:
    """Run `pk groups undo`, which is `pk undo` for changes to committed offsets."""
    await undo(context, change_id=change_id, anyway=anyway, kind="group-offsets")


def _check_cluster(context: Context, change: store.Change, here: str | None) -> None:
    """Raise Refused for a change on a different cluster."""
    if here != change.cluster_id:
        raise Refused(
            f"Change {change.id} was made on {change.cluster} (cluster {change.cluster_id}), and "
            f"{context.settings.cluster_name} is cluster {here}; choose that cluster with -b or "
            "--profile."
        )
