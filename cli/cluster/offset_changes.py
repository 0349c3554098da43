"""Changes committed offsets: shows the plan as a table, asks, commits, and records how to undo it.
`reset-offsets` and `undo` both pass a list of moves.

An offset below 0 is never committed; metadata that a group committed with an offset is kept.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import trio

from pk.cli.cluster.groups import SHARE, types_of, unused_offset_columns
from pk.cli.cluster.offset_change_row import OffsetChangeRow
from pk.cli.cluster.replicas import sizes_by_replica
from pk.cli.output.formats import Listing
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join
from pk.cli.positions.times import show_time
from pk.cli.runtime import undo_log as undo
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.question_table import say_table
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_SIZES_S = 3.0
"""How long to wait for brokers to report sizes, which are not essential."""

_GROUPS_AT_ONCE = 16
_ASKED_ROWS = 40
"""The most offsets to show with the question; the others are counted."""

_NOTHING = "changes nothing"
_JOINED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP)


Times = dict[tuple[TopicPartition, int], int]
"""(partition, offset) → the timestamp of the record there, in epoch milliseconds."""


class Move(NamedTuple):
    """A change of one committed offset."""

    group: str
    tp: TopicPartition
    committed: int | None
    target: int | None
    leader_epoch: int
    """The leader epoch of the target; -1 if unknown."""

    metadata: str
    """The metadata to commit with the target."""

    note: str
    error: Exception | None = None
    span: tuple[int, int] | None = None
    """The partition's first offset and log end, if requested."""

    was: r.OffsetAndMetadata | None = None
    """The current committed offset."""

    deletes: bool = False
    """Whether the change deletes the committed offset, since there was none before."""

    @property
    def read_to(self) -> int | None:
        """The offset from which the group would continue without the change; None if it has
        none."""
        if isinstance(self.was, r.ShareGroupOffset):
            return self.was.unread(self.span[1] if self.span else None)
        return self.committed

    @property
    def delta(self) -> int | None:
        at = self.read_to
        return None if at is None or self.target is None else self.target - at

    @property
    def changes(self) -> bool:
        """Whether the move has to be written."""
        if self.error is not None:
            return False
        return self.committed is not None if self.deletes else self.target is not None


def effect(move: Move) -> str | None:
    """re-read, skip, stay or delete; None if no offset was committed."""
    if move.deletes:
        return "delete" if move.committed is not None else "stay"
    delta = move.delta
    if delta is None:
        return None
    return "re-read" if delta < 0 else "skip" if delta > 0 else "stay"


def _rows(moves: Sequence[Move], times: Times, result: str) -> list[OffsetChangeRow]:
    """A row for each move; `result` is the result of moves without an error."""
    return [
        {
            "group": m.group,
            "topic": m.tp.topic,
            "partition": m.tp.partition,
            "committed": None if isinstance(m.was, r.ShareGroupOffset) else m.committed,
            "start_offset": m.committed if isinstance(m.was, r.ShareGroupOffset) else None,
            "target": m.target,
            "delta": m.delta,
            "effect": effect(m),
            "target_time": show_time(times[m.tp, m.target])
            if m.target is not None and (m.tp, m.target) in times
            else None,
            "note": m.note or None,
            "result": phrase(m.error) if m.error else result,
            "error": error_name(m.error) if m.error else None,
        }
        for m in moves
    ]


async def target_times(admin: Admin, moves: Sequence[Move]) -> Times:
    """The timestamp of the record at each target, read without a group; targets without a record
    are left out."""
    places = [(m.tp, m.target) for m in moves if m.target is not None and m.delta]
    if not places:
        return {}
    found = await admin.record_times(places)
    return {place: time for place, time in found.ok.items() if time is not None and time >= 0}


async def bytes_of(admin: Admin, moves: Sequence[Move]) -> float | None:
    """An estimate of the bytes that will be read again: those between targets and later committed
    offsets. None if unknown.

    It assumes that the bytes of the leader's replica are spread evenly over its offsets, which
    compaction and records of different sizes do not ensure.
    """
    back = [m for m in moves if m.delta and m.delta < 0 and m.span and m.span[1] > m.span[0]]
    if not back:
        return None
    leaders = {m.tp: admin.cluster.metadata.leader(m.tp)[0] for m in back}
    brokers = sorted({b for b in leaders.values() if b >= 0})
    with trio.move_on_after(_SIZES_S):
        dirs = await admin.describe_log_dirs(brokers, list(leaders))
        sizes = sizes_by_replica(dirs)
        total = 0.0
        for m in back:
            size = sizes.get((m.tp, leaders[m.tp]))
            if size is None or m.span is None or m.delta is None:
                return None
            total += size * min(-m.delta / (m.span[1] - m.span[0]), 1.0)
        return total
    return None


def totals(moves: Sequence[Move], times: Times | None = None, size: float | None = None) -> str:
    """The totals in a sentence: `re-reads 1,204 records (about 3.1 GB), back to 2026-09-17
    08:00:00`."""
    back = sum(-m.delta for m in moves if m.delta and m.delta < 0)
    on = sum(m.delta for m in moves if m.delta and m.delta > 0)
    first = sum(m.committed is None and m.target is not None for m in moves)
    gone = sum(m.deletes and m.committed is not None for m in moves)
    reread = ""
    if back:
        reread = f"re-reads {count(back, 'record')}"
        if size is not None:
            from pk.cli.output.amounts import show_bytes

            reread += f" (about {show_bytes(size)})"
        oldest = [
            times[m.tp, m.target]
            for m in moves
            if times
            and m.delta
            and m.delta < 0
            and m.target is not None
            and (m.tp, m.target) in times
        ]
        if oldest:
            reread += f", back to {show_time(min(oldest))[:19].replace('T', ' ')}"
    parts = [
        reread,
        f"skips {count(on, 'record')}" if on else "",
        f"sets {count(first, 'offset')} for the first time" if first else "",
        f"deletes {count(gone, 'commit')} that did not exist before" if gone else "",
    ]
    return join([p for p in parts if p]) or _NOTHING


def export_csv(moves: Sequence[Move], *, with_group: bool) -> bytes:
    """The plan as Apache's CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for m in moves:
        if m.target is not None:
            row = [m.tp.topic, m.tp.partition, m.target]
            writer.writerow([m.group, *row] if with_group else row)
    return buffer.getvalue().encode()


def groups_in(moves: Iterable[Move]) -> list[str]:
    return list(dict.fromkeys(m.group for m in moves))


def _listing(rows: Sequence[OffsetChangeRow], *, done: bool = False) -> Listing:
    """The plan, or the result if `done`. The group is shown only if there are several, and empty
    columns are not shown."""
    wide = {name for name in ("target_time", "note") if not any(row[name] for row in rows)}
    wide |= unused_offset_columns(row["start_offset"] is not None for row in rows)
    if len({row["group"] for row in rows}) <= 1:
        wide.add("group")
    if not done:
        wide.add("result")
    return listing(OffsetChangeRow, rows, wide=wide)


async def preview(context: Context, admin: Admin, moves: Sequence[Move]) -> None:
    """Show the plan on standard output."""
    times = await target_times(admin, moves)
    rows = _rows(moves, times, "would be set")
    context.show(_listing(rows))
    size = await bytes_of(admin, moves)
    said = totals(moves, times, size)
    context.say(f"This {said}; nothing was changed." if said != _NOTHING else f"This {said}.")


async def ask(
    context: Context,
    admin: Admin,
    moves: Sequence[Move],
    question: str,
    note: str = "",
    *,
    unasked: bool,
) -> None:
    """Say on standard error what would change, with the plan unless the question is skipped, and
    ask. Raises Refused."""
    times = await target_times(admin, moves)
    size = await bytes_of(admin, moves)
    if not unasked:
        rows = _rows(moves, times, "")
        if len(rows) > _ASKED_ROWS:  # rows with a note come first
            rows.sort(key=lambda row: not row["note"])
        say_table(context, _listing(rows)._replace(rows=rows[:_ASKED_ROWS]))
        if len(rows) > _ASKED_ROWS:
            context.say(f"… and {len(rows) - _ASKED_ROWS:,} more (`--dry-run` shows all).")
    groups = groups_in(moves)
    context.say(
        f"On {context.settings.cluster_name}, this {totals(moves, times, size)} for {join(groups)}."
        f"{note}"
    )
    await context.agree(
        question, name=groups[0] if len(groups) == 1 else context.settings.bootstrap
    )


async def commit(admin: Admin, moves: Sequence[Move]) -> list[Move]:
    """Commit the targets, several groups at a time. Returns each move with its error."""
    by_group: dict[str, list[Move]] = {}
    for m in moves:
        by_group.setdefault(m.group, []).append(m)
    done: dict[str, list[Move]] = {}
    types = await types_of(admin, by_group)
    limit = trio.CapacityLimiter(_GROUPS_AT_ONCE)

    async def one(group: str) -> None:
        async with limit:
            write = _begin if types[group] == SHARE else _commit
            done[group] = await write(admin, group, by_group[group])

    async with trio.open_nursery() as nursery:
        for group in by_group:
            nursery.start_soon(one, group)
    return [m for group in by_group for m in done[group]]


async def _commit(admin: Admin, group: str, moves: Sequence[Move]) -> list[Move]:
    good = {
        m.tp: r.OffsetAndMetadata(m.target, m.leader_epoch, m.metadata)
        for m in moves
        if m.changes and m.target is not None
    }
    assert all(c.offset >= 0 for c in good.values()), "an offset below 0 is never committed"
    errors: dict[TopicPartition, Exception] = {}
    if good:
        errors |= (await admin.alter_group_offsets(group, good)).errors
    gone = [m.tp for m in moves if m.changes and m.deletes]
    if gone:
        try:
            errors |= (await admin.delete_group_offsets(group, gone)).errors
        except KafkaError as error:
            errors |= dict.fromkeys(gone, error)
    done: list[Move] = []
    for m in moves:
        error = errors.get(m.tp)
        if isinstance(error, KafkaError) and error.code in _JOINED:
            error = KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"a member joined group {group} in the meantime"
            )
        done.append(m._replace(error=error or m.error))
    return done


async def _begin(admin: Admin, group: str, moves: Sequence[Move]) -> list[Move]:
    """Set the start offsets of a share group, as `_commit` does for committed offsets. Only a whole
    topic's can be deleted, so those of the topic's other partitions are set again."""
    good = {m.tp: m.target for m in moves if m.changes and m.target is not None}
    errors: dict[TopicPartition, Exception] = {}
    forgotten = {m.tp for m in moves if m.changes and m.deletes}
    gone = {tp.topic for tp in forgotten}
    try:
        if gone:
            now = await _begun(admin, group)
            good |= {
                tp: offset
                for tp, offset in now.items()
                if tp.topic in gone and tp not in forgotten and tp not in good
            }
            kept = (await admin.delete_share_group_offsets(group, sorted(gone))).errors
            errors |= {m.tp: kept[m.tp.topic] for m in moves if m.tp.topic in kept}
        if good:
            errors |= (await admin.alter_share_group_offsets(group, good)).errors
    except KafkaError as error:
        errors |= {m.tp: error for m in moves if m.changes}
    return [m._replace(error=errors.get(m.tp) or m.error) for m in moves]


async def _begun(admin: Admin, group: str) -> dict[TopicPartition, int]:
    """The start offsets of a share group, for the partitions that it has begun to read. Raises
    KafkaError."""
    found = (await admin.list_share_groups_offsets([group])).value(group)
    return {tp: found.value(tp).offset for tp in found}


def report(context: Context, done: Sequence[Move], kept: str | None, *, quiet: bool) -> None:
    """Show the changes, and how to undo them."""
    for m in done:
        if m.error is not None and m.error not in context.failures:
            context.failed(m.error, f"{m.group} {m.tp}")
    if not quiet:
        context.show(_listing(_rows(done, {}, "set"), done=True))
    if kept is None:
        return
    if any(m.changes for m in done):
        context.say(undo.how_to_undo(kept))
    else:
        undo.forget(kept)
