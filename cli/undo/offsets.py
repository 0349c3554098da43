"""Undoing changes to committed offsets: each partition's commit as it was, with its metadata; or none, where there was none.

A commit can be written back only while the group is empty, and is not worth much once the group has read on, or once the
topic was deleted and made anew: its offsets are then those of other records. So all that is looked at first. An offset
that retention has taken away meanwhile is clamped, as a reset's is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pk.cli.cluster.groups import EMPTY_STATES, active_refusal
from pk.cli.positions.resolve import bounds_of
from pk.cli.runtime.context import Context, count, join
from pk.cli.runtime.exits import Refused
from pk.cli.runtime.failures import phrase
from pk.cli.undo import log as store
from pk.cli.undo.offset_changes import PLAN, Move, ask, commit, effect, preview, report
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import ZERO_UUID, TopicPartition, uuid_text
from pk.net.client import results as r
from pk.net.client.admin import Admin

KIND = "group-offsets"
COLUMNS = PLAN
"""What undoing a change of this kind shows."""


class Kept(NamedTuple):
    """A commit as it was, and what a change made of it."""

    group: str
    tp: TopicPartition
    offset: int | None
    """None: nothing was committed."""

    leader_epoch: int
    metadata: str
    after: int | None
    """The offset that the change committed; None: it deleted the commit."""


async def remember(
    context: Context, admin: Admin, kept: Sequence[Kept], text: str, *, undoes: str | None = None
) -> str | None:
    """Keeps the way back from a change that is about to be made, which `text` describes; its id."""
    topics = await _topic_ids(admin, kept)
    inverse = as_inverse(kept) | {"topics": topics}
    return await store.remember(context, admin, KIND, text, inverse, undoes=undoes)


async def _topic_ids(admin: Admin, kept: Iterable[Kept]) -> dict[str, str]:
    """The ids of the topics that are there; none from brokers older than 2.8, which know no ids."""
    found = await admin.describe_topics({k.tp.topic for k in kept})
    return {
        name: uuid_text(topic.topic_id)
        for name, topic in found.items()
        if isinstance(topic, r.TopicDescription) and topic.topic_id != ZERO_UUID
    }


def as_inverse(kept: Iterable[Kept]) -> dict[str, Any]:
    """The commits, as `pk undo` stores them."""
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
    """What `as_inverse` made."""
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
    """Keeps the way back from moves that are about to be made; its id, or None where there is nothing to undo."""
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
    """Shows what each commit goes back to, asks, and commits it; True once that is done.

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
    remade = [name for name in before if now.get(name, before[name]) != before[name]]
    if context.change.dry_run:
        await preview(context, admin, moves)
        for group in active:
            context.say(str(active_refusal(group, "offsets are set back")))
        if remade:
            context.say(_remade(remade))
        return False
    if active:
        raise active_refusal(active[0], "offsets are set back")
    if remade and not anyway:
        raise Refused(f"{_remade(remade)} --anyway sets the offsets back regardless.")
    if all(m.error or effect(m) == "stay" for m in moves):
        await preview(context, admin, moves)
        return not any(m.error for m in moves)
    if since and not anyway:
        raise Refused(
            f"{join(since)} {'has' if len(since) == 1 else 'have'} moved on since; --dry-run shows how "
            "far, --anyway sets the offsets back regardless."
        )
    await ask(context, admin, moves, "Set back?", unasked=context.change.yes)
    again = await keep_moves(
        context, admin, moves, f"undo of {change.id}: set back", undoes=change.id
    )
    done = await commit(admin, moves)
    report(context, done, again, quiet=False)
    return not any(m.error for m in done)


def _remade(topics: list[str]) -> str:
    each = "was" if len(topics) == 1 else "were"
    return f"{join(topics, 3)} {each} deleted and created again since: the offsets belong to other records."


async def _moves(context: Context, admin: Admin, kept: list[Kept]) -> list[Move]:
    names = list(dict.fromkeys(k.group for k in kept))
    commits = await admin.list_groups_offsets(names)
    tps = sorted({k.tp for k in kept})
    starts, ends = await bounds_of(admin, tps)
    moves: list[Move] = []
    for k in kept:
        found = commits[k.group]
        if isinstance(found, Exception):
            if not (isinstance(found, KafkaError) and found.code == ErrorCode.GROUP_ID_NOT_FOUND):
                raise found
            found = {}
        commit = found.get(k.tp)
        now = commit if isinstance(commit, r.OffsetAndMetadata) else None
        move = _move(k, now, starts[k.tp], ends[k.tp])
        if move.error is not None:
            context.fail(move.error)
        moves.append(move)
    return moves


def _move(kept: Kept, now: r.OffsetAndMetadata | None, start: Any, end: Any) -> Move:
    at = now.offset if now else None
    move = Move(kept.group, kept.tp, at, kept.offset, kept.leader_epoch, kept.metadata, "", was=now)
    note = "" if at in (kept.after, kept.offset) else f"moved since, from {_said(kept.after)}"
    if kept.offset is None:
        none = "deleted: none before" if at is not None else "there is none, as before"
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


def _said(offset: int | None) -> str:
    return "no commit" if offset is None else str(offset)
