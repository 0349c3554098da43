"""Undoes changes to committed offsets: restores each partition's offset with its metadata, or
deletes it if there was none.

An offset can be committed only while the group is empty. It is also worth little once the group has
read on, or once the topic was deleted and created again: it then belongs to other records. All of
that is checked first. An offset that retention has deleted in the meantime is clamped, as in a
reset.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pk.cli.cluster.groups import EMPTY_STATES, active_refusal, is_absent, offsets_of, types_of
from pk.cli.exits import Refused
from pk.cli.phrases import count, join
from pk.cli.positions.resolve import bounds_of
from pk.cli.runtime import undo_log as store
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import phrase
from pk.cli.undo.offset_changes import Move, ask, commit, effect, preview, report
from pk.cli.undo.rows import OffsetChangeRow
from pk.core.values import ZERO_UUID, TopicPartition, uuid_text
from pk.net.client import results as r
from pk.net.client.admin import Admin

KIND = "group-offsets"
ROW = OffsetChangeRow
"""The rows that undoing such a change shows."""


class Kept(NamedTuple):
    """A committed offset as it was, and what a change made of it."""

    group: str
    tp: TopicPartition
    offset: int | None
    """None: no offset was committed."""

    leader_epoch: int
    metadata: str
    after: int | None
    """The offset that the change committed; None: it deleted the offset."""


async def remember(
    context: Context, admin: Admin, kept: Sequence[Kept], text: str, *, undoes: str | None = None
) -> str | None:
    """Records how to undo a change that is about to be made, which `text` describes; returns its
    id."""
    topics = await _topic_ids(admin, kept)
    inverse = as_inverse(kept) | {"topics": topics}
    return await store.remember(context, admin, KIND, text, inverse, undoes=undoes)


async def _topic_ids(admin: Admin, kept: Iterable[Kept]) -> dict[str, str]:
    """The ids of the existing topics; none from brokers older than 2.8, which have no topic ids."""
    found = await admin.describe_topics({k.tp.topic for k in kept})
    return {
        name: uuid_text(topic.topic_id)
        for name, topic in found.items()
        if isinstance(topic, r.TopicDescription) and topic.topic_id != ZERO_UUID
    }


def as_inverse(kept: Iterable[Kept]) -> dict[str, Any]:
    """The committed offsets, as `pk undo` stores them."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for k in kept:
        groups.setdefault(k.group, []).append(
            {
                "topic": k.tp.topic,
                "partition": k.tp.partition,
                "offset": k.offset,
                "leader_epoch": k.leader_epoch,
                "metadata": k.metadata,
                "after": k.after,
            }
        )
    return {"groups": groups}


def kept_in(inverse: Mapping[str, Any]) -> list[Kept]:
    """The inverse of `as_inverse`."""
    return [
        Kept(
            group,
            TopicPartition(o["topic"], o["partition"]),
            o["offset"],
            o["leader_epoch"],
            o["metadata"],
            o["after"],
        )
        for group, offsets in inverse["groups"].items()
        for o in offsets
    ]


async def keep_moves(
    context: Context,
    admin: Admin,
    moves: Iterable[Move],
    said: str,
    *,
    undoes: str | None = None,
) -> str | None:
    """Records how to undo moves that are about to be made; returns the id, or None if there is
    nothing to undo."""
    kept = [
        Kept(
            m.group,
            m.tp,
            m.was.offset if m.was else None,
            m.was.leader_epoch if m.was else -1,
            m.was.metadata if m.was else "",
            m.target,
        )
        for m in moves
        if m.changes and effect(m) != "stay"
    ]
    if not kept:
        return None
    names = join(list(dict.fromkeys(k.group for k in kept)), 3)
    topics = join(list(dict.fromkeys(k.tp.topic for k in kept)), 3)
    text = f"{said} {count(len(kept), 'offset')} of {names} in {topics}"
    return await remember(context, admin, kept, text, undoes=undoes)


async def undo(context: Context, change: store.Change, *, anyway: bool) -> bool:
    """Shows what each committed offset is restored to, asks, and commits it; True once that is
    done.

    Raises Refused if the group is active, or, without `anyway`, if it has committed since.
    """
    admin = await context.admin()
    kept = kept_in(change.inverse)
    names = list(dict.fromkeys(k.group for k in kept))
    described = await admin.describe_groups(names)
    active = [
        g
        for g in described.values()
        if isinstance(g, r.GroupDescription) and g.state not in EMPTY_STATES
    ]
    moves = await _moves(context, admin, kept)
    since = list(dict.fromkeys(m.group for m in moves if m.note.startswith("moved since")))
    before, now = change.inverse.get("topics", {}), await _topic_ids(admin, kept)
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
    for k in kept:
        found = commits[k.group]
        if isinstance(found, Exception) and not is_absent(found):
            raise found
        commit = None if isinstance(found, Exception) else found.get(k.tp)
        now = commit if isinstance(commit, r.OffsetAndMetadata) else None
        move = _move(k, now, starts[k.tp], ends[k.tp])
        if move.error is not None:
            context.fail(move.error)
        moves.append(move)
    return moves


def _move(kept: Kept, now: r.OffsetAndMetadata | None, start: Any, end: Any) -> Move:
    at = now.offset if now else None
    move = Move(kept.group, kept.tp, at, kept.offset, kept.leader_epoch, kept.metadata, "", was=now)
    note = "" if at in (kept.after, kept.offset) else f"moved since, from {_shown(kept.after)}"
    if kept.offset is None:
        none = "deleted: none before" if at is not None else "none, as before"
        return move._replace(deletes=True, metadata="", note=f"{note}; {none}" if note else none)
    error = next((a for a in (start, end) if isinstance(a, Exception)), None)
    if error is not None:
        return move._replace(target=None, error=error, note=phrase(error))
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
