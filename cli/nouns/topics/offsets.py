"""`pk topics offsets`: the start and end of partitions, and the offset of a position or of a time
as in Apache's tool."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pk.cli.cluster.partition_selection import partitions_at
from pk.cli.cluster.position_lookup import check_group, lacks_commit, resolve_positions
from pk.cli.cluster.topics import describe_topics, partition_numbers
from pk.cli.exits import Unusable
from pk.cli.nouns.topics.options import TopicOffsets
from pk.cli.nouns.topics.rows import OffsetsRow, PositionRow
from pk.cli.output.rows import listing
from pk.cli.phrases import partition_name
from pk.cli.positions.grammar import Positions
from pk.cli.positions.resolve import ResolvedRange, bounds_of, positions_option
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_TIMES: Final = {
    "latest": r.LATEST,
    "earliest": r.EARLIEST,
    "max-timestamp": r.MAX_TIMESTAMP,
    "earliest-local": r.EARLIEST_LOCAL,
    "latest-tiered": r.LATEST_TIERED,
    "earliest-pending-upload": r.EARLIEST_PENDING_UPLOAD,
}
"""The words that `--time` of kafka-get-offsets accepts in addition to milliseconds, each with its
timestamp in a request."""

Found = tuple[int | None, int | None] | Exception
"""The first and last offset of a range; None if there is none."""


def _time(text: str) -> int:
    """The timestamp that a broker is asked for. Raises Unusable."""
    special = _TIMES.get(text.lower())
    if special is not None:
        return special
    if re.fullmatch(r"-[1-6]|[0-9]{1,18}", text):
        return int(text)
    raise Unusable(
        f"--time is as in kafka-get-offsets: milliseconds since 1970, {', '.join(_TIMES)}, or -1 "
        f"to -6; not {text!r}. -o takes every position, such as @-1h."
    )


async def offsets(context: Context, options: TopicOffsets) -> None:
    """`pk topics offsets`."""
    if options.offset is not None and options.time is not None:
        raise Unusable("-o and --time both name a position; say one.")
    positions = positions_option(options.offset, "-o") if options.offset is not None else None
    check_group(positions, options.group)
    moment = _time(options.time) if options.time is not None else None
    numbers = partition_numbers(options.partitions, "-p")
    admin = await context.admin()
    topics = await describe_topics(context, admin, options.topic)
    wanted = partitions_at(topics, numbers, positions)
    isolation = r.IsolationLevel[options.isolation_level.upper()]
    starts, ends = await bounds_of(admin, wanted, isolation)
    answered = [tp for tp in wanted if isinstance(ends[tp], r.ListedOffset)]
    found: Mapping[TopicPartition, Found] = {}
    if positions is not None:
        found = await _of_positions(context, admin, positions, answered, options.group, isolation)
    elif moment is not None:
        found = await _of_time(admin, moment, answered, isolation)
    rows: list[OffsetsRow] = []
    positioned: list[PositionRow] = []
    for tp in wanted:
        start, end, also = starts[tp], ends[tp], found.get(tp)
        error = next((a for a in (start, end, also) if isinstance(a, Exception)), None)
        if error is not None:
            context.failed(error, partition_name(tp))
        first, last = _offset(start), _offset(end)
        begin, until = also if isinstance(also, tuple) else (None, None)
        row: OffsetsRow = {
            "topic": tp.topic,
            "partition": tp.partition,
            "start": first,
            "end": last,
            "offsets": None if first is None or last is None else last - first,
            "leader_epoch": end.leader_epoch if isinstance(end, r.ListedOffset) else None,
            "error": None if error is None else error_name(error),
        }
        rows.append(row)
        positioned.append({**row, "begin": begin, "until": until})
    asked = positions is not None or moment is not None
    if asked:
        context.show(listing(PositionRow, positioned, _style))
    else:
        context.show(listing(OffsetsRow, rows, _style))


def _style(row: OffsetsRow | PositionRow) -> str | None:
    return "red" if row["error"] is not None else None


def _offset(answer: r.ListedOffset | Exception) -> int | None:
    return answer.offset if isinstance(answer, r.ListedOffset) else None


async def _of_positions(
    context: Context,
    admin: Admin,
    positions: Positions,
    wanted: Sequence[TopicPartition],
    group: str | None,
    isolation: r.IsolationLevel,
) -> dict[TopicPartition, Found]:
    ranges = await resolve_positions(
        context, admin, positions, wanted, group=group, isolation=isolation
    )
    return {tp: _ends(place) for tp, place in ranges.items()}


def _ends(place: ResolvedRange | Exception) -> Found:
    if isinstance(place, Exception):
        return place
    return None if lacks_commit(place) else place.begin, place.end


async def _of_time(
    admin: Admin, moment: int, wanted: Sequence[TopicPartition], isolation: r.IsolationLevel
) -> dict[TopicPartition, Found]:
    """The offsets that the brokers return for a timestamp; None if there is none, as after the last
    record."""
    answers = await admin.list_offsets(dict.fromkeys(wanted, moment), isolation=isolation)
    return {
        tp: a if isinstance(a, Exception) else (a.offset if a.offset >= 0 else None, None)
        for tp, a in answers.items()
    }
