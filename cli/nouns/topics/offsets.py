"""`pk topics offsets`: shows the start and end of partitions, and the offset of a position or, as
in Apache's tool, of a time."""

import re
from collections.abc import Sequence
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
from pk.cli.positions.resolve import bounds_of, positions_option
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers

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

Found = Answers[TopicPartition, tuple[int | None, int | None]]
"""The first and last offset of a range; None if there is none."""


def _time(text: str) -> int:
    """The timestamp for the request to the broker. Raises Unusable."""
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
    """Run `pk topics offsets`."""
    if options.offset is not None and options.time is not None:
        raise Unusable("-o and --time each give a position; use only one.")
    positions = positions_option(options.offset, "-o") if options.offset is not None else None
    check_group(positions, options.group)
    moment = _time(options.time) if options.time is not None else None
    numbers = partition_numbers(options.partitions, "-p")
    admin = await context.admin()
    topics = await describe_topics(context, admin, options.topic)
    wanted = partitions_at(topics, numbers, positions)
    isolation = r.IsolationLevel[options.isolation_level.upper()]
    starts, ends = await bounds_of(admin, wanted, isolation)
    answered = [tp for tp in wanted if tp in ends.ok]
    found: Found = Answers()
    if positions is not None:
        found = await _of_positions(context, admin, positions, answered, options.group, isolation)
    elif moment is not None:
        found = await _of_time(admin, moment, answered, isolation)
    rows: list[OffsetsRow] = []
    positioned: list[PositionRow] = []
    for tp in wanted:
        start, end = starts.ok.get(tp), ends.ok.get(tp)
        error = starts.errors.get(tp) or ends.errors.get(tp) or found.errors.get(tp)
        if error is not None:
            context.failed(error, partition_name(tp))
        first, last = _offset(start), _offset(end)
        begin, until = found.ok.get(tp, (None, None))
        row: OffsetsRow = {
            "topic": tp.topic,
            "partition": tp.partition,
            "start": first,
            "end": last,
            "offsets": None if first is None or last is None else last - first,
            "leader_epoch": None if end is None else end.leader_epoch,
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


def _offset(listed: r.ListedOffset | None) -> int | None:
    return None if listed is None else listed.offset


async def _of_positions(
    context: Context,
    admin: Admin,
    positions: Positions,
    wanted: Sequence[TopicPartition],
    group: str | None,
    isolation: r.IsolationLevel,
) -> Found:
    ranges = await resolve_positions(
        context, admin, positions, wanted, group=group, isolation=isolation
    )
    found: Found = Answers(ranges.errors.items())
    for tp, place in ranges.ok.items():
        found.add(tp, (None if lacks_commit(place) else place.begin, place.end))
    return found


async def _of_time(
    admin: Admin, moment: int, wanted: Sequence[TopicPartition], isolation: r.IsolationLevel
) -> Found:
    """The offsets that the brokers return for a timestamp; None if there is none, as after the last
    record."""
    answers = await admin.list_offsets(dict.fromkeys(wanted, moment), isolation=isolation)
    found: Found = Answers(answers.errors.items())
    for tp, listed in answers.ok.items():
        found.add(tp, (listed.offset if listed.offset >= 0 else None, None))
    return found
