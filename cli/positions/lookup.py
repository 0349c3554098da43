"""Where a position lies in each partition, for commands that read, show or shorten partitions: a group's commits are asked
for where the position speaks of them, and what would surprise is said. No group is joined."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pk.cli.positions.grammar import Anchor, Positions
from pk.cli.positions.resolve import Place, now_ms, resolve
from pk.cli.runtime.context import Context, join, place_name
from pk.cli.runtime.exits import CommandError, Unusable
from pk.core.values import TopicPartition
from pk.net.client.results import IsolationLevel, OffsetAndMetadata

if TYPE_CHECKING:
    from pk.net.client.admin import Admin

_SHOWN = 3


async def places_of(
    context: Context,
    admin: "Admin",
    positions: Positions,
    partitions: Iterable[TopicPartition],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, Place | Exception]:
    """The place of `positions` in each partition; one whose leader does not answer has its error instead.

    The option -g names whose commits `committed` means. Raises Unusable where it is missing, CommandError where that group
    has committed nothing at all, KafkaError.
    """
    committed = None
    if positions.uses(Anchor.COMMITTED):
        committed = await _commits(admin, context.args.group)
    places = await resolve(admin, positions, partitions, now_ms(), isolation, committed)
    tell_inverted(context, places)
    return places


def check_group(context: Context, positions: Positions | None) -> None:
    """Refuses a group whose commits nothing asks for, and `committed` without a group. Raises Unusable."""
    asked = positions is not None and positions.uses(Anchor.COMMITTED)
    group = context.args.group
    if asked and group is None:
        raise Unusable("The position `committed` wants a group: -g GROUP.")
    if group is not None and not asked:
        raise Unusable(
            "-g says whose commits are meant: it wants -o committed, or a range with it."
        )


async def _commits(admin: "Admin", group: str | None) -> dict[TopicPartition, int | None]:
    if group is None:
        raise Unusable("The position `committed` wants a group: -g GROUP.")
    answers = await admin.list_group_offsets(group)
    found: dict[TopicPartition, int | None] = {
        tp: c.offset for tp, c in answers.items() if isinstance(c, OffsetAndMetadata)
    }
    if not found:
        raise CommandError(
            f"Group {group} has committed nothing; `pk groups list` shows which groups there are."
        )
    return found


def lacks_commit(place: Place) -> bool:
    """Whether `committed` was asked for where the group has committed nothing."""
    return place.note.startswith("no commit")


def tell_uncommitted(context: Context, places: Mapping[TopicPartition, Place | Exception]) -> None:
    """Says in which partitions the group has no commit, so that they are read from their end."""
    lacking = [
        place_name(tp)
        for tp, place in places.items()
        if isinstance(place, Place) and lacks_commit(place)
    ]
    if lacking:
        context.say(
            f"Group {context.args.group} has no commit in {join(lacking, _SHOWN)}: the end is taken there."
        )


def tell_inverted(context: Context, places: Mapping[TopicPartition, Place | Exception]) -> None:
    """Says where a range holds nothing because, in that partition, it is the wrong way round."""
    wrong = [
        (tp, place.note)
        for tp, place in places.items()
        if isinstance(place, Place) and place.note.startswith("ends at")
    ]
    for tp, note in wrong[:_SHOWN]:
        context.say(f"{place_name(tp)}: the range {note}, so there is nothing in it.")
    if len(wrong) > _SHOWN:
        context.say(f"The same holds for {len(wrong) - _SHOWN} more.")
