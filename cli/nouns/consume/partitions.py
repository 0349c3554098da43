"""The partitions that `pk consume` reads without a group, and the offsets to read in each."""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pk.cli.cluster.partition_selection import partitions_at
from pk.cli.cluster.position_lookup import check_group, resolve_positions, say_uncommitted
from pk.cli.cluster.topics import (
    existing_topics,
    names_or_included,
    partition_numbers,
)
from pk.cli.nouns.consume.request import Request
from pk.cli.positions.grammar import Anchor
from pk.cli.records.idle_reason import leaderless, named
from pk.cli.records.range_reader import Span
from pk.cli.runtime.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.partitioner import partition_for_key
from pk.net.client.results import IsolationLevel


class Leadership(NamedTuple):
    """Whether a partition has a leader, and its last leader's epoch."""

    led: bool
    epoch: int = -1


async def partitions_of(context: Context, request: Request) -> dict[TopicPartition, Leadership]:
    """The partitions to read without a group, and their leadership. Raises CommandError for a topic
    or partition that does not exist."""
    options = request.options
    admin = await context.admin()
    names = await names_or_included(context, admin, request.topics, options.include)
    topics = await existing_topics(context, admin, names)
    if options.key_partition:
        key = os.fsencode(options.key or "")
        wanted = [
            tp
            for t in topics
            for tp in partitions_at(
                [t], [partition_for_key(key, len(t.partitions))], request.positions
            )
        ]
    else:
        numbers = partition_numbers(options.partitions, "-p")
        wanted = partitions_at(topics, numbers, request.positions)
    leads = {
        TopicPartition(t.name, p.partition): Leadership(p.leader_id >= 0, p.leader_epoch)
        for t in topics
        for p in t.partitions
    }
    return {tp: leads[tp] for tp in wanted}


def without_leaderless(
    context: Context, found: Mapping[TopicPartition, Leadership], *, endless: bool
) -> list[TopicPartition]:
    """The partitions to begin with: those that have a leader. Reports what happens to the others.

    When reading without end, they are added as soon as they have a leader. A range skips them,
    which fails the command, but waits if none has a leader.
    """
    dead = [tp for tp, lead in found.items() if not lead.led]
    if not dead:
        return list(found)
    all_dead = len(dead) == len(found)
    then = "skipped"
    if endless or all_dead:
        then = "reading starts when there is one" if endless else "waiting for one"
    context.say(leaderless(dead, then))
    if all_dead and not endless:
        return dead
    if not endless:
        context.fail(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
    return [tp for tp, lead in found.items() if lead.led]


async def spans_of(
    context: Context,
    request: Request,
    isolation: IsolationLevel,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, Span]:
    """The offsets to read in each partition. Raises the error of the first partition that has
    one."""
    admin, group = await context.admin(), request.options.group
    if request.positions.uses(Anchor.COMMITTED):
        check_group(request.positions, group)
    ranges = await resolve_positions(
        context, admin, request.positions, partitions, group=group, isolation=isolation
    )
    if request.positions.uses(Anchor.COMMITTED):
        context.say(f"Reading from the commits of group {group}, without joining it.")
    say_uncommitted(context, ranges, group)
    spans: dict[TopicPartition, Span] = {}
    moved: dict[str, list[TopicPartition]] = {}
    for tp in ranges:
        found = ranges.value(tp)
        spans[tp] = Span(found.begin, found.end)
        # These notes are expected, or have been printed already.
        if not found.note.startswith(("nothing after", "0 is before", "no commit", "ends at")):
            moved.setdefault(found.note, []).append(tp)
    moved.pop("", None)
    for note, where in moved.items():
        context.say(f"{named(where)}: {note}.")
    return spans
