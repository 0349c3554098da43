"""Committed offsets on their way: the table that shows it beforehand, the question, the commit, the way back.

`reset-offsets` and `undo` both come here with a list of moves. An offset below 0 is never committed; what a group held as
metadata beside an offset stays.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import trio

from pk.cli.cluster.replicas import sizes_by_replica
from pk.cli.output.formats import Column, Listing
from pk.cli.output.question_table import say_table
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context, count, join
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.undo import log as undo
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_SIZES_S = 3.0
"""How long brokers may take to tell sizes: they are a comfort, not the matter."""

_GROUPS_AT_ONCE = 16
_ASKED_ROWS = 40
"""So many offsets are shown with the question; the rest is counted."""

_NOTHING = "changes nothing"
_JOINED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP)


Times = dict[tuple[TopicPartition, int], int]
"""(partition, offset) → when its record was produced."""


class Move(NamedTuple):
    """What happens to one committed offset."""

    group: str
    tp: TopicPartition
    committed: int | None
    target: int | None
    leader_epoch: int
    """Of the target; -1 where unknown."""

    metadata: str
    """What is committed beside the target."""

    note: str
    error: Exception | None = None
    span: tuple[int, int] | None = None
    """The first offset of the partition and the one after its last record, where they were asked for."""

    was: r.OffsetAndMetadata | None = None
    """The commit as it is."""

    deletes: bool = False
    """The commit is deleted: there was none before."""

    @property
    def delta(self) -> int | None:
        return (
            None if self.committed is None or self.target is None else self.target - self.committed
        )

    @property
    def changes(self) -> bool:
        """Whether anything is to be written for it."""
        if self.error is not None:
            return False
        return self.committed is not None if self.deletes else self.target is not None


def _delta(delta: int | None) -> str:
    """How far the offset moves, and what that means for the group."""
    if not delta:
        return "-" if delta is None else "0"
    return f"{delta:+,} {'skip' if delta > 0 else 're-read'}"


def _to_the_minute(time: str | None) -> str:
    return time[:16].replace("T", " ") if time else "-"


PLAN = (
    Column("group"),
    Column("topic"),
    Column("partition", right=True, title="PART"),
    Column("committed", right=True),
    Column("target", right=True),
    Column("delta", right=True, title="Δ RECORDS", show=_delta),
    Column(
        "target_time",
        title="TIME AT TARGET",
        right=True,
        show=_to_the_minute,
    ),
    Column("note"),
    Column("result", wide=True),
    Column("effect", wide=True),
    Column("error", wide=True),
)


def effect(move: Move) -> str | None:
    """re-read, skip, stay, delete; None where nothing was committed."""
    if move.deletes:
        return "delete" if move.committed is not None else "stay"
    delta = move.delta
    if delta is None:
        return None
    return "re-read" if delta < 0 else "skip" if delta > 0 else "stay"


def rows_of(moves: Sequence[Move], times: Times, result: str) -> list[dict[str, Any]]:
    """A row for each move; `result` is that of the ones that met no error."""
    return [
        {
            "group": m.group,
            "topic": m.tp.topic,
            "partition": m.tp.partition,
            "committed": m.committed,
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
    """The time of the record at each target, read without a group; absent where there is none."""
    places = [(m.tp, m.target) for m in moves if m.target is not None and m.delta]
    if not places:
        return {}
    found = await admin.record_times(places)
    return {place: time for place, time in found.items() if isinstance(time, int) and time >= 0}


async def bytes_of(admin: Admin, moves: Sequence[Move]) -> float | None:
    """About how many bytes lie between the commits and the targets that lie before them; None where nobody tells.

    The size of the leader's replica, shared out over its offsets: compaction and uneven records make it an estimate.
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
    """`re-reads 1,204 records (about 3.1 GB), back to 2026-09-17 08:00:00`, and what else there is to say."""
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
        f"deletes {count(gone, 'commit')} where there was none before" if gone else "",
    ]
    return join([p for p in parts if p]) or _NOTHING


def export_csv(moves: Sequence[Move], *, with_group: bool) -> bytes:
    """The plan in Apache's CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for m in moves:
        if m.target is not None:
            row = [m.tp.topic, m.tp.partition, m.target]
            writer.writerow([m.group, *row] if with_group else row)
    return buffer.getvalue().encode()


def groups_in(moves: Iterable[Move]) -> list[str]:
    return list(dict.fromkeys(m.group for m in moves))


def _columns(
    moves: Sequence[Move], times: Times | None = None, *, done: bool = False
) -> list[Column]:
    """The columns of a plan at a terminal: the group only where there are several, no column that would be empty."""
    hidden = {"effect"} if len(groups_in(moves)) > 1 else {"effect", "group"}
    hidden |= set() if times else {"target_time"}
    hidden |= set() if any(m.note for m in moves) else {"note"}
    hidden |= {"error"} if done else {"result", "error"}
    return [column._replace(wide=column.key in hidden) for column in PLAN]


async def preview(context: Context, admin: Admin, moves: Sequence[Move]) -> None:
    """Shows what would happen, on standard output."""
    times = await target_times(admin, moves)
    rows = rows_of(moves, times, "would be set")
    context.show(Listing(_columns(moves, times), rows))
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
    """Shows the plan on standard error, unless nobody is asked, and asks. Raises Refused."""
    times: Times = {}
    size = None
    if not unasked:
        times = await target_times(admin, moves)
        size = await bytes_of(admin, moves)
        rows = rows_of(moves, times, "")
        if len(rows) > _ASKED_ROWS:  # what is to be said of one is seen in any case
            rows.sort(key=lambda row: not row["note"])
        say_table(context, Listing(_columns(moves, times), rows[:_ASKED_ROWS]))
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
    """Commits the targets, several groups at a time; each move comes back with the error it met."""
    by_group: dict[str, list[Move]] = {}
    for m in moves:
        by_group.setdefault(m.group, []).append(m)
    done: dict[str, list[Move]] = {}
    limit = trio.CapacityLimiter(_GROUPS_AT_ONCE)

    async def one(group: str) -> None:
        async with limit:
            done[group] = await _commit(admin, group, by_group[group])

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
    answers: dict[TopicPartition, Exception | None] = {}
    if good:
        answers |= await admin.alter_group_offsets(group, good)
    gone = [m.tp for m in moves if m.changes and m.deletes]
    if gone:
        try:
            answers |= await admin.delete_group_offsets(group, gone)
        except KafkaError as error:
            answers |= dict.fromkeys(gone, error)
    done: list[Move] = []
    for m in moves:
        error = answers.get(m.tp)
        if isinstance(error, KafkaError) and error.code in _JOINED:
            error = KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"a member joined group {group} meanwhile"
            )
        done.append(m._replace(error=error or m.error))
    return done


def report(context: Context, done: Sequence[Move], kept: str | None, *, quiet: bool) -> None:
    """Shows what was done, and how to undo it."""
    for m in done:
        if m.error is not None and m.error not in context.failures:
            context.failed(m.error, f"{m.group} {m.tp}")
    if not quiet:
        context.show(Listing(_columns(done, done=True), rows_of(done, {}, "set")))
    if kept is None:
        return
    if any(m.changes for m in done):
        context.say(undo.how_to_undo(kept))
    else:
        undo.forget(kept)
