"""`pk undo` and `pk history`: what was changed from here, and the way back."""

import importlib
from collections.abc import Awaitable, Callable

from pk.cli.output.formats import Listing, narrow
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import CommandError, Refused, Unusable
from pk.cli.undo import log as store
from pk.cli.undo.change_list import show_changes

KINDS = {
    "group-offsets": "pk.cli.undo.offsets:undo",
    "configs": "pk.cli.undo.configs:undo",
}
"""Kind of change → the function that shows what undoing it does, asks and does it; True once it is done."""

Undo = Callable[[Context, store.Change], Awaitable[bool]]


async def undo(context: Context) -> None:
    """`pk undo`: without an id what can be undone, with one the undoing."""
    await _undo(context, None)


async def undo_groups(context: Context) -> None:
    """`pk groups undo`: the same, of changes to groups."""
    await _undo(context, "group-offsets")


async def _undo(context: Context, kind: str | None) -> None:
    args = context.args
    if args.id is None:
        if args.yes or args.dry_run or args.anyway:
            raise Unusable("Say which change: `pk undo last`, or an ID of `pk history`.")
        left = [c for c in store.history() if c.undone_ms is None and kind in (None, c.kind)]
        show_changes(context, left)
        context.say("pk undo ID undoes one." if left else "There is nothing to undo.")
        return
    change = None if args.id == "last" else store.find(args.id, kind)
    here = await store.cluster_id_of(await context.admin())
    change = change or store.last(here, kind)
    if not args.dry_run:
        context.allow()
    if change.undone_ms is not None and not args.anyway:
        raise Refused(
            f"Change {change.id} was undone {show_span(now_ms() - change.undone_ms)} ago; "
            "--anyway does it again."
        )
    _check_cluster(context, change, here)
    if change.kind not in KINDS:
        raise CommandError(
            f"Change {change.id} ({change.description}) was made by another version of pk, which may undo it."
        )
    module, _, name = KINDS[change.kind].partition(":")
    loaded = importlib.import_module(module)
    # What cannot be shown is refused before anything is done.
    narrow(Listing(loaded.COLUMNS, ()), context.look)
    run: Undo = getattr(loaded, name)
    age = show_span(now_ms() - change.made_ms)
    context.say(f"Change {change.id}, {age} ago: {change.description}.")
    if await run(context, change):
        try:
            store.mark_undone(change.id, now_ms())
        except OSError as e:
            context.say(
                f"It could not be noted that change {change.id} is undone ({e.strerror or e}): do not undo it again."
            )


def _check_cluster(context: Context, change: store.Change, here: str | None) -> None:
    """Refuses to undo on one cluster what was done on another."""
    if here != change.cluster_id:
        raise Refused(
            f"Change {change.id} was made on {change.cluster} (cluster {change.cluster_id}), and "
            f"{context.settings.cluster_name} is cluster {here}; name the other with -b or --profile."
        )
