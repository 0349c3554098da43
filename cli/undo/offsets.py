"""Undoes changes to committed offsets: restores each partition's offset with its metadata, or
deletes it if there was none.

An offset can be committed only while the group is empty. It is also of little use once the group
has read further, or once the topic was deleted and created again, since it then belongs to other
records. All of this is checked first. An offset that retention has deleted in the meantime is
clamped, as in a reset.
"""

from pk.cli.cluster.groups import (
    EMPTY_STATES,
    NO_COMMITS,
    active_refusal,
    is_absent,
    offsets_of,
    types_of,
)
from pk.cli.cluster.offset_change_row import OffsetChangeRow
from pk.cli.cluster.offset_changes import Move, ask, commit, effect, preview, report
from pk.cli.cluster.remembered_offsets import Kept, keep_moves, kept_in, topic_ids
from pk.cli.exits import Refused
from pk.cli.phrases import join
from pk.cli.positions.resolve import Listed, bounds_of
from pk.cli.runtime import undo_log as store
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import phrase
from pk.net.client import results as r
from pk.net.client.admin import Admin

ROW = OffsetChangeRow
"""The row types that undoing such a change shows."""


async def undo(context: Context, change: store.Change, *, anyway: bool) -> bool:
    """Show what each committed offset is restored to, ask, and commit it. Returns True once that is
    done.

    Raises Refused if the group is active or, without `anyway`, if it has committed since.
    """
    admin = await context.admin()
    kept = kept_in(change.inverse)
    names = list(dict.fromkeys(k.group for k in kept))
    described = await admin.describe_groups(names)
    active = [g for g in described.ok.values() if g.state not in EMPTY_STATES]
    moves = await _moves(context, admin, kept)
    since = list(dict.fromkeys(m.group for m in moves if m.note.startswith("moved since")))
    before, now = change.inverse.get("topics", {}), await topic_ids(admin, kept)
    recreated = [name for name in before if now.get(name, before[name]) != before[name]]
    if context.change.dry_run:
        await preview(context, admin, moves)
        for group in active:
            context.say(str(active_refusal(group, "offsets are restored")))
        if recreated:
            context.say(_recreated(recreated))
        return False
    if active:
        raise active_refusal(active[0], "offsets are restored")
    if recreated and not anyway:
        raise Refused(f"{_recreated(recreated)} --anyway restores the offsets regardless.")
    if all(m.error or effect(m) == "stay" for m in moves):
        await preview(context, admin, moves)
        return not any(m.error for m in moves)
    if since and not anyway:
        raise Refused(
            f"{join(since)} {'has' if len(since) == 1 else 'have'} moved on since; --dry-run "
            "shows how far, --anyway restores the offsets regardless."
        )
    await ask(context, admin, moves, "Restore?", unasked=context.change.yes)
    again = await keep_moves(
        context, admin, moves, f"undo of {change.id}: restored", undoes=change.id
    )
    done = await commit(admin, moves)
    report(context, done, again, quiet=False)
    return not any(m.error for m in done)


def _recreated(topics: list[str]) -> str:
    each = "was" if len(topics) == 1 else "were"
    return (
        f"{join(topics, 3)} {each} deleted and created again since: the offsets belong to "
        "other records."
    )


async def _moves(context: Context, admin: Admin, kept: list[Kept]) -> list[Move]:
    names = list(dict.fromkeys(k.group for k in kept))
    commits = await offsets_of(admin, await types_of(admin, names))
    tps = sorted({k.tp for k in kept})
    starts, ends = await bounds_of(admin, tps)
    moves: list[Move] = []
    for k in sorted(kept, key=lambda k: (names.index(k.group), k.tp)):
        found = NO_COMMITS if is_absent(commits, k.group) else commits.value(k.group)
        move = _move(k, found.ok.get(k.tp), starts, ends)
        if move.error is not None:
            context.fail(move.error)
        moves.append(move)
    return moves


def _move(kept: Kept, now: r.OffsetAndMetadata | None, starts: Listed, ends: Listed) -> Move:
    at = now.offset if now else None
    move = Move(kept.group, kept.tp, at, kept.offset, kept.leader_epoch, kept.metadata, "", was=now)
    note = "" if at in (kept.after, kept.offset) else f"moved since, from {_shown(kept.after)}"
    if kept.offset is None:
        none = "deleted: none before" if at is not None else "none, as before"
        return move._replace(deletes=True, metadata="", note=f"{note}; {none}" if note else none)
    error = starts.errors.get(kept.tp) or ends.errors.get(kept.tp)
    if error is not None:
        return move._replace(target=None, error=error, note=phrase(error))
    start, end = starts.ok[kept.tp], ends.ok[kept.tp]
    target = min(max(kept.offset, start.offset), end.offset)
    if target != kept.offset:
        note = f"{note}; " if note else ""
        note += f"{kept.offset} is {'gone' if target > kept.offset else 'past the end'}: clamped"
        return move._replace(
            target=target, leader_epoch=-1, note=note, span=(start.offset, end.offset)
        )
    return move._replace(note=note, span=(start.offset, end.offset))


def _shown(offset: int | None) -> str:
    return "no commit" if offset is None else str(offset)
