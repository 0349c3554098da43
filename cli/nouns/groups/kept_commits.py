"""Keeps the commits that a command is about to delete, so that `pk undo` can restore them."""

from collections.abc import Mapping

from pk.cli.cluster.remembered_offsets import Kept, remember
from pk.cli.phrases import count, join
from pk.cli.runtime import undo_log as undo
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin


async def keep_commits(
    context: Context,
    admin: Admin,
    commits: Mapping[str, Mapping[TopicPartition, r.OffsetAndMetadata | None]],
) -> str | None:
    """Keep commits (by group) that are about to be deleted. Returns the id for `pk undo`; None if
    there are no commits."""
    kept = [
        Kept(group, tp, commit.offset, commit.leader_epoch, commit.metadata, None)
        for group, found in commits.items()
        for tp, commit in found.items()
        if commit is not None
    ]
    if not kept:
        return None
    names = list(dict.fromkeys(k.group for k in kept))
    description = f"deleted {count(len(kept), 'committed offset')} of {join(names, 3)}"
    return await remember(context, admin, kept, description)


def say_how_to_undo(context: Context, change_id: str | None, *, deleted: bool) -> None:
    """Say how to undo a deletion, or discard the kept commits if nothing was `deleted`."""
    if change_id is None:
        return
    if deleted:
        context.say(undo.how_to_undo(change_id))
    else:
        undo.forget(change_id)
