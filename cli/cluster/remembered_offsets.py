"""Records how to undo changes of committed offsets (`pk.cli.undo.offsets` undoes them)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pk.cli.cluster.offset_changes import Move, effect
from pk.cli.phrases import count, join
from pk.cli.runtime import undo_log
from pk.cli.runtime.context import Context
from pk.core.values import ZERO_UUID, TopicPartition, uuid_text
from pk.net.client.admin import Admin

KIND = "group-offsets"


class Kept(NamedTuple):
    """A committed offset before a change, and the offset that the change committed."""

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
    """Record how to undo a change that is about to be made, which `text` describes. Returns its
    id."""
    topics = await topic_ids(admin, kept)
    inverse = as_inverse(kept) | {"topics": topics}
    return await undo_log.remember(context, admin, KIND, text, inverse, undoes=undoes)


async def topic_ids(admin: Admin, kept: Iterable[Kept]) -> dict[str, str]:
    """The ids of the existing topics; empty for brokers older than 2.8, which have no topic ids."""
    found = await admin.describe_topics({k.tp.topic for k in kept})
    return {
        name: uuid_text(topic.topic_id)
        for name, topic in found.ok.items()
        if topic.topic_id != ZERO_UUID
    }


def as_inverse(kept: Iterable[Kept]) -> dict[str, Any]:
    """The committed offsets in the form in which `pk undo` stores them."""
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
    """Read the form that `as_inverse` writes."""
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
    """Record how to undo moves that are about to be made. Returns the id, or None if there is
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
