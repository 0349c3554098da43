"""The output of `pk reassign`: the tables of a plan, and the live view of moves."""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from pk.cli.cluster.reassignment_progress import Tracker, first_lines, sentence
from pk.cli.nouns.reassign.plan import BrokerChange, Change
from pk.cli.nouns.reassign.rows import BrokerBeforeAndAfter, MovedRow, PlannedMoveRow
from pk.cli.output.amounts import show_bytes, show_rate
from pk.cli.output.formats import Listing
from pk.cli.output.rows import listing
from pk.cli.phrases import partition_name
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.cli.terminal.text import escaped

if TYPE_CHECKING:
    from rich.console import RenderableType

_LINE_S = 10.0
"""How often a line is written if the output is not a terminal, in seconds."""


def plan_rows(changes: Iterable[Change]) -> list[PlannedMoveRow]:
    """A row for each partition of a plan."""
    return [
        {
            "topic": c.tp.topic,
            "partition": c.tp.partition,
            "before": list(c.before),
            "after": list(c.after),
            "change": " ".join([f"+{b}" for b in c.adding] + [f"-{b}" for b in c.removing])
            or "order",
            "leader": f"{c.before[0]} → {c.after[0]}" if c.moves_leader and c.before else None,
            "bytes": c.bytes,
        }
        for c in changes
    ]


def plan_listing(changes: Iterable[Change]) -> Listing:
    """The partitions of a plan."""
    return listing(PlannedMoveRow, plan_rows(changes))


def broker_listing(brokers: Iterable[BrokerChange]) -> Listing:
    """The effect of a plan on each broker."""
    rows: list[BrokerBeforeAndAfter] = [
        {
            "broker": b.broker,
            "rack": b.rack,
            "replicas": b.replicas,
            "leaders": b.leaders,
            "bytes": b.bytes,
            "bytes_in": b.bytes_in,
            "bytes_out": b.bytes_out,
        }
        for b in brokers
    ]
    return listing(BrokerBeforeAndAfter, rows)


class LiveView:
    """Draws the progress: a table that is redrawn on a terminal, or else a line at intervals."""

    def __init__(self, context: Context, rate: int | None) -> None:
        self._context = context
        self._rate = rate
        self._last_line_s = float("-inf")
        self._done = -1
        self.note = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.clear_status()

    def say_rate(self, rate: int, why: str) -> None:
        """Say that the throttle has changed."""
        if rate != self._rate:
            verb = "raised" if self._rate is None or rate > self._rate else "lowered"
            self._rate = rate
            if not self._context.streams.err_redraws:
                self._context.say(f"Throttle {verb} to {show_rate(rate, 'bytes')}: {why}.")

    def update(self, tracker: Tracker) -> None:
        """Show the latest poll, or only the note if there is none."""
        if self._context.streams.err_redraws:
            self._context.draw_status(self._table(tracker))
            return
        whole = tracker.whole_or_none
        done = 0 if whole is None else whole.done + whole.cancelled
        now = time.monotonic()
        if done != self._done or now - self._last_line_s >= _LINE_S:
            self._done, self._last_line_s = done, now
            progress = "" if whole is None else sentence(whole, self._rate)
            self._context.say(" ".join(filter(None, (progress, self.note))))

    def _table(self, tracker: Tracker) -> "RenderableType":
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        note = [Text(escaped(self.note), style="yellow")] if self.note else []
        whole = tracker.whole_or_none
        if whole is None:
            return Group(*note)
        height = max(self._context.streams.err_height - 6, 3)
        rows = first_lines(tracker.rows, height)
        table = Table.grid(padding=(0, 2))
        for _ in range(3):
            table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        for row in rows:
            part = row.part
            change = " ".join([f"+{b}" for b in row.adding] + [f"-{b}" for b in row.removing])
            bar = ProgressBar(total=1.0, completed=part or 0.0, width=20)
            stalled = f"stalled {show_span(row.stalled_s * 1000)}" if row.stalled_s else ""
            table.add_row(
                Text(partition_name(row.tp)),
                Text(change, style="dim"),
                bar,
                "-" if part is None else f"{part:.0%}",
                Text(stalled or show_bytes(row.total), style="yellow" if stalled else "dim"),
            )
        left = whole.left - len(rows)
        more = [Text(f"… and {left} more", style="dim")] if left > 0 else []
        foot = Text(sentence(whole, self._rate), style="bold")
        return Group(table, *more, foot, *note)


def result_rows(
    changes: Iterable[Change], results: Mapping[Any, str], errors: Mapping[Any, str]
) -> list[MovedRow]:
    """A row for each partition, with its result."""
    return [
        {
            "topic": c.tp.topic,
            "partition": c.tp.partition,
            "before": list(c.before),
            "after": list(c.after),
            "result": results.get(c.tp, ""),
            "error": errors.get(c.tp),
        }
        for c in changes
    ]
