"""Resolves positions for commands that read, show or trim partitions.

Fetches a group's commits if a position needs them, and prints a line if the result may be
unexpected. Never joins a group.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pk.cli.exits import CommandError, Unusable
from pk.cli.phrases import join, partition_name
from pk.cli.positions.grammar import Anchor, Positions
from pk.cli.positions.resolve import ResolvedRange, resolve
from pk.cli.runtime.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.answers import Answers
from pk.net.client.results import IsolationLevel, OffsetAndMetadata

if TYPE_CHECKING:
    from pk.net.client.admin import Admin

_SHOWN = 3


async def resolve_positions(
    context: Context,
    admin: "Admin",
    positions: Positions,
    partitions: Iterable[TopicPartition],
    *,
    group: str | None,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Answers[TopicPartition, ResolvedRange]:
    """The offsets that `positions` mean in each partition, or the error of a partition whose leader
    does not answer.

    `group` (-g) is the group whose commits `committed` refers to; for a share group, these are its
    start offsets. Raises Unusable if the group is missing, CommandError if it has committed nothing
    at all, and KafkaError.
    """
    committed = None
    if positions.uses(Anchor.COMMITTED):
        committed = await _commits(admin, group)
    ranges = await resolve(admin, positions, partitions, isolation, committed)
    say_inverted(context, ranges.ok)
    return ranges


def check_group(positions: Positions | None, group: str | None) -> None:
    """Check that -g and `committed` are used together. Raises Unusable."""
    asked = positions is not None and positions.uses(Anchor.COMMITTED)
    if asked and group is None:
        raise Unusable("The position `committed` needs a group: -g GROUP.")
    if group is not None and not asked:
        raise Unusable(
            "-g names the group whose commits to use; it needs -o committed, or a range with it."
        )


async def _commits(admin: "Admin", group: str | None) -> dict[TopicPartition, int | None]:
    if group is None:
        raise Unusable("The position `committed` needs a group: -g GROUP.")
    commits: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
    errors: Mapping[TopicPartition, Exception] = {}
    try:
        answers = await admin.list_group_offsets(group)
        commits, errors = answers.ok, answers.errors
    except KafkaError as e:
        if e.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    if not (commits or errors):  # the start offsets of a share group are at its share coordinator
        for started in (await admin.list_share_groups_offsets([group])).ok.values():
            commits = started.ok
    found: dict[TopicPartition, int | None] = {
        tp: c.offset for tp, c in commits.items() if c is not None
    }
    if not found:
        raise CommandError(
            f"Group {group} has no committed offsets; `pk groups list` lists the groups."
        )
    return found


def lacks_commit(found: ResolvedRange) -> bool:
    """Whether the position is `committed` and the group has no commit in this partition."""
    return found.note.startswith("no commit")


def say_uncommitted(
    context: Context,
    ranges: Answers[TopicPartition, ResolvedRange],
    group: str | None,
) -> None:
    """Name the partitions in which the group has no commit; they are read from their end."""
    lacking = [partition_name(tp) for tp, found in ranges.ok.items() if lacks_commit(found)]
    if lacking:
        context.say(f"Group {group} has no commit in {join(lacking, _SHOWN)}: using the end there.")


def say_inverted(context: Context, ranges: Mapping[TopicPartition, ResolvedRange]) -> None:
    """Name the partitions in which the range ends before it begins, and so is empty."""
    wrong = [(tp, found.note) for tp, found in ranges.items() if found.note.startswith("ends at")]
    for tp, note in wrong[:_SHOWN]:
        context.say(f"{partition_name(tp)}: the range {note}, so it is empty.")
    if len(wrong) > _SHOWN:
        context.say(f"The same is true of {len(wrong) - _SHOWN} more.")
