"""Resolves typed positions to offsets of real partitions by asking the brokers. Joins no group, and
creates nothing."""

import time
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from typing import NamedTuple, Protocol

import trio

from pk.cli.exits import Unusable
from pk.cli.positions.grammar import Anchor, Position, Positions, parse_positions
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.answers import Answers


class ResolvedRange(NamedTuple):
    """The offsets that a typed range means in one partition."""

    begin: int
    end: int | None
    """Exclusive; None if the range has no end."""

    start: int
    """The partition's first offset."""

    latest: int
    """The offset after the partition's last record."""

    note: str = ""
    """How `begin` differs from the typed position: `… clamped`, `no commit …`, `nothing after …`,
    or `ends at …` if the range ends before it begins in this partition. Empty if it does not
    differ."""


Committed = Mapping[TopicPartition, int | None]


class OffsetLister(Protocol):
    """Answers ListOffsets: the admin client, or a cache of its answers."""

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
    ) -> Answers[TopicPartition, r.ListedOffset]: ...


def now_ms() -> int:
    """The milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


def positions_option(text: str, option: str, zone: tzinfo | None = None) -> Positions:
    """Parse the value of a position option. Raises Unusable."""
    try:
        return parse_positions(text, now_ms(), zone)
    except ValueError as e:
        raise Unusable(f"{option}: {e}.") from None


class Bounds(NamedTuple):
    """The offsets in one partition from which positions are counted."""

    start: int
    latest: int
    by_time: Mapping[int, int]
    """Time in epoch milliseconds → the first offset at or after it; -1 if there is none."""

    committed: int | None


Listed = Answers[TopicPartition, r.ListedOffset]
"""The answer for each partition: an offset or an error."""


async def bounds_of(
    admin: OffsetLister,
    partitions: Iterable[TopicPartition],
    isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
) -> tuple[Listed, Listed]:
    """The first offset of each partition, and the offset after its last record; both are requested
    at the same time."""
    found: dict[int, Listed] = {r.EARLIEST: Answers(), r.LATEST: Answers()}
    wanted = list(partitions)

    async def ask(moment: int) -> None:
        asked = dict.fromkeys(wanted, moment)
        found[moment] = await admin.list_offsets(asked, isolation=isolation)

    if wanted:
        async with trio.open_nursery() as nursery:
            for moment in found:
                nursery.start_soon(ask, moment)
    return found[r.EARLIEST], found[r.LATEST]


async def resolve(
    admin: OffsetLister,
    positions: Positions,
    partitions: Iterable[TopicPartition],
    isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
    committed: Committed | None = None,
) -> Answers[TopicPartition, ResolvedRange]:
    """The offsets that `positions` mean in each of `partitions`. Partitions that they do not name
    are left out.

    A partition whose leader does not answer has its error instead. `committed` has the group's
    commits. Raises Unusable if `positions` refer to commits and there is no group.
    """
    if committed is None and positions.uses(Anchor.COMMITTED):
        raise Unusable("The position `committed` needs a group.")
    wanted = [tp for tp in partitions if positions.of(tp.partition) is not None]
    starts, ends = await bounds_of(admin, wanted, isolation)
    times = await _times(admin, positions, wanted, isolation)
    ranges: Answers[TopicPartition, ResolvedRange] = Answers()
    for tp in wanted:
        found = times.get(tp, Answers[int, r.ListedOffset]())
        errors = (starts.errors.get(tp), ends.errors.get(tp), *found.errors.values())
        if (error := next(filter(None, errors), None)) is not None:
            ranges.add(tp, error)
            continue
        by_time = {moment: listed.offset for moment, listed in found.ok.items()}
        commit = committed.get(tp) if committed is not None else None
        bounds = Bounds(starts.ok[tp].offset, ends.ok[tp].offset, by_time, commit)
        ranges.add(tp, resolve_range(positions, tp.partition, bounds))
    return ranges


async def _times(
    admin: OffsetLister,
    positions: Positions,
    partitions: list[TopicPartition],
    isolation: r.IsolationLevel,
) -> dict[TopicPartition, Answers[int, r.ListedOffset]]:
    """Partition → the answer for each time in its range."""
    wanted: dict[int, list[TopicPartition]] = {}
    for tp in partitions:
        asked = positions.of(tp.partition)
        for position in asked or ():
            if position is not None and position.anchor is Anchor.TIME:
                wanted.setdefault(position.value, []).append(tp)
    answers: dict[TopicPartition, Answers[int, r.ListedOffset]] = {}
    for moment, tps in wanted.items():
        # A time before 1970 would read as one of the special timestamps.
        asked_ms = max(moment, 0)
        listed = await admin.list_offsets(dict.fromkeys(tps, asked_ms), isolation=isolation)
        for tp in listed:
            answer = listed.errors.get(tp) or listed.ok[tp]
            answers.setdefault(tp, Answers()).add(moment, answer)
    return answers


def resolve_range(positions: Positions, partition: int, bounds: Bounds) -> ResolvedRange:
    """The offsets of the range in one partition, clamped to the offsets of the partition."""
    asked = positions.of(partition)
    assert asked is not None
    begin, note = _offset(asked.begin, bounds)
    if asked.end is None:
        return ResolvedRange(begin, None, bounds.start, bounds.latest, note)
    end, _ = _offset(asked.end, bounds)
    if end < begin:
        note = f"ends at {end}, before it begins at {begin}"
    return ResolvedRange(begin, max(end, begin), bounds.start, bounds.latest, note)


def _offset(position: Position, bounds: Bounds) -> tuple[int, str]:
    """The offset, clamped to the partition's offsets, and a note if it differs from the requested
    one."""
    note = ""
    match position.anchor:
        case Anchor.START:
            wanted = bounds.start + position.value
        case Anchor.END:
            # "10 before the end" of a partition of 5 records is its start, as expected.
            return max(bounds.latest + position.value, bounds.start), ""
        case Anchor.OFFSET:
            wanted = position.value
        case Anchor.TIME:
            wanted = bounds.by_time.get(position.value, -1)
            if wanted < 0:
                return bounds.latest, "nothing after that time: end"
        case Anchor.COMMITTED:
            if bounds.committed is None:
                return bounds.latest, "no commit: end"
            wanted = bounds.committed + position.value
    if wanted < bounds.start:
        note, wanted = f"{wanted} is before the start: clamped", bounds.start
    elif wanted > bounds.latest:
        note, wanted = f"{wanted} is past the end: clamped", bounds.latest
    return wanted, note
