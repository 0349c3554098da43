"""From positions as typed to offsets of real partitions, by asking the brokers. Joins no group, creates nothing."""

import time
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from typing import NamedTuple, Protocol

import trio

from pk.cli.positions.grammar import Anchor, Position, Positions, parse_positions
from pk.cli.runtime.exits import Unusable
from pk.core.values import TopicPartition
from pk.net.client import results as r


class Place(NamedTuple):
    """A range of offsets in one partition, and how it came about."""

    begin: int
    end: int | None
    """Not included; None: without end."""

    start: int
    """The first offset that the partition has."""

    latest: int
    """The offset after its last record."""

    note: str = ""
    """`clamped …`, `no commit …`, `nothing after …`, `ends …` of a range that is the wrong way round here, or empty."""


Committed = Mapping[TopicPartition, int | None]


class Offsets(Protocol):
    """Who is asked for offsets: the admin client, or something that remembers its answers."""

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, r.ListedOffset | Exception]: ...


def now_ms() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


def positions_option(text: str, option: str, zone: tzinfo | None = None) -> Positions:
    """The value of a position option. Raises Unusable."""
    try:
        return parse_positions(text, now_ms(), zone)
    except ValueError as e:
        raise Unusable(f"{option}: {e}.") from None


class Bounds(NamedTuple):
    """Where the log of a partition begins and ends, and what else positions in it are found by: offsets."""

    start: int
    latest: int
    by_time: Mapping[int, int]
    """Time → the first offset at or after it; -1 where there is none."""

    committed: int | None


Listed = Mapping[TopicPartition, r.ListedOffset | Exception]
"""What was told of each partition; or why nothing was."""


async def bounds_of(
    admin: Offsets,
    partitions: Iterable[TopicPartition],
    isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
) -> tuple[Listed, Listed]:
    """The first offset of each partition, and the one after its last record; both asked for at once."""
    found: dict[int, Listed] = {r.EARLIEST: {}, r.LATEST: {}}
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
    admin: Offsets,
    positions: Positions,
    partitions: Iterable[TopicPartition],
    now: int,
    isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
    committed: Committed | None = None,
) -> dict[TopicPartition, Place | Exception]:
    """The place in each of `partitions` that `positions` names; partitions it does not name are left out.

    A partition that its leader does not answer for has its error instead. `committed` holds the group's commits.
    Raises Unusable where `positions` speaks of commits and there is no group.
    """
    if committed is None and positions.uses(Anchor.COMMITTED):
        raise Unusable("The position `committed` wants a group.")
    wanted = [tp for tp in partitions if positions.of(tp.partition) is not None]
    starts, ends = await bounds_of(admin, wanted, isolation)
    times = await _times(admin, positions, wanted, isolation)
    places: dict[TopicPartition, Place | Exception] = {}
    for tp in wanted:
        start, end, found = starts[tp], ends[tp], times.get(tp, {})
        error = next((a for a in (start, end, *found.values()) if isinstance(a, Exception)), None)
        if error is not None:
            places[tp] = error
            continue
        assert isinstance(start, r.ListedOffset) and isinstance(end, r.ListedOffset)
        by_time = {t: a.offset for t, a in found.items() if isinstance(a, r.ListedOffset)}
        commit = committed.get(tp) if committed is not None else None
        places[tp] = place(
            positions, tp.partition, Bounds(start.offset, end.offset, by_time, commit)
        )
    return places


async def _times(
    admin: Offsets,
    positions: Positions,
    partitions: list[TopicPartition],
    isolation: r.IsolationLevel,
) -> dict[TopicPartition, dict[int, r.ListedOffset | Exception]]:
    """For each partition, the answers for each time that its range names."""
    wanted: dict[int, list[TopicPartition]] = {}
    for tp in partitions:
        asked = positions.of(tp.partition)
        for position in asked or ():
            if position is not None and position.anchor is Anchor.TIME:
                wanted.setdefault(position.value, []).append(tp)
    answers: dict[TopicPartition, dict[int, r.ListedOffset | Exception]] = {}
    for moment, tps in wanted.items():
        # A time before 1970 would read as one of the special timestamps.
        asked_ms = max(moment, 0)
        for tp, answer in (
            await admin.list_offsets(dict.fromkeys(tps, asked_ms), isolation=isolation)
        ).items():
            answers.setdefault(tp, {})[moment] = answer
    return answers


def place(positions: Positions, partition: int, bounds: Bounds) -> Place:
    """The range asked for in one partition, within what the partition holds."""
    asked = positions.of(partition)
    assert asked is not None
    begin, note = _offset(asked.begin, bounds)
    if asked.end is None:
        return Place(begin, None, bounds.start, bounds.latest, note)
    end, _ = _offset(asked.end, bounds)
    if end < begin:
        note = f"ends at {end}, before it begins at {begin}"
    return Place(begin, max(end, begin), bounds.start, bounds.latest, note)


def _offset(position: Position, bounds: Bounds) -> tuple[int, str]:
    """The offset, clamped to what there is, and a note where it is not what was asked for."""
    note = ""
    match position.anchor:
        case Anchor.START:
            wanted = bounds.start + position.value
        case Anchor.END:
            # "10 before the end" of a partition of 5 records is its start, and no surprise.
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
