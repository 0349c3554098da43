"""The appearance of `pk top`: lines of styled text for a terminal of any size, from the model and
the user's choices. Pure.

The name column takes the space that the others leave; long names are cut in the middle, so that
their ends still distinguish them. Columns never shrink while the terminal keeps its size, so that
the table does not flicker.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from pk.cli.cluster.reassignment_progress import sentence
from pk.cli.output.amounts import show_ms, show_rate
from pk.cli.output.formats import Row
from pk.cli.phrases import count, join
from pk.cli.positions.times import show_span, show_time
from pk.cli.terminal.full_screen import Line
from pk.cli.terminal.table import GAP, pad, room_of, short_head
from pk.cli.terminal.text import cut, cut_middle, printable
from pk.cli.top.model import Event, Model
from pk.cli.top.record import record_lines
from pk.cli.top.records import Found
from pk.cli.top.rows import spark
from pk.cli.top.state import HELP, Screen
from pk.cli.top.tables import TABS, TopColumn

_NAME_MIN = 20
"""Columns are dropped until names have this many cells."""
_VALUE_MIN = 40
"""Columns are dropped until values of records have this many cells."""
_SMALLEST = (40, 8)


class Status(NamedTuple):
    """The state of the screen, except the model."""

    cluster: str
    at_ms: int | None
    """The time of the data, in epoch milliseconds."""

    now_ms: int
    trouble: str | None = None
    stale: bool = False
    """Whether the data is out of date, and so is drawn dimmed."""


class Painter:
    """Lays out the screen. Remembers column widths between drawings."""

    def __init__(self) -> None:
        self._widths: dict[tuple[str, str], int] = {}
        self._size = (0, 0)
        self._made: tuple[object, Sequence[Row]] = (None, ())
        self._rows: Sequence[Row] = ()
        self._shown = Screen().shown.name
        self._whole_record: tuple[object, list[Line]] = (None, [])

    def rows(self, screen: Screen) -> Sequence[Row]:
        """The rows of the table as last arranged, to which the keys apply. Empty if another tab was
        drawn."""
        return self._rows if self._shown == screen.shown.name else ()

    def lines(
        self, model: Model, screen: Screen, status: Status, width: int, height: int
    ) -> list[Line]:
        """The whole screen: exactly `height` lines, none wider than `width`."""
        if (width, height) != self._size:
            self._size = (width, height)
            self._widths.clear()
        tab = screen.shown
        self._shown = tab.name
        known = (tab.name, screen.subject, model.version)
        if self._made[0] != known:
            self._made = (known, tab.rows(model, screen.subject, status.now_ms))
        self._rows = screen.arrange(self._made[1])
        if width < _SMALLEST[0] or height < _SMALLEST[1]:
            lines: list[Line] = [[(f"pk top needs {_SMALLEST[0]}×{_SMALLEST[1]}; q quits.", "")]]
        else:
            lines = self._whole(model, screen, status, width, height)
        if status.stale:
            lines = [[(text, style or "dim") for text, style in line] for line in lines]
        lines = [fitted(line, width) for line in lines[:height]]
        return lines + [[] for _ in range(height - len(lines))]

    def _whole(
        self, model: Model, screen: Screen, status: Status, width: int, height: int
    ) -> list[Line]:
        head = [_title(model, status, width), _tabs(screen, width)]
        foot = [_foot(screen, status, width)]
        if screen.help:
            body = _help()
        elif screen.record is not None:
            body = self._record(screen, width, height - len(head) - len(foot))
        else:
            above = _summary(model, screen, status, width)
            below = _below(model, screen, width, height)
            room = height - len(head) - len(above) - len(below) - len(foot) - 1
            body = [*above, *self._table(model, screen, width, max(room, 1))]
            free = height - len(head) - len(foot) - len(body) - len(below)
            body += [[] for _ in range(free)]
            body += below
        body = body[: height - len(head) - len(foot)]
        body += [[] for _ in range(height - len(head) - len(foot) - len(body))]
        return [*head, *body, *foot]

    def _record(self, screen: Screen, width: int, room: int) -> list[Line]:
        """The part of the open record that fits."""
        assert screen.record is not None
        if self._whole_record[0] != (screen.record, width):
            lines = record_lines(screen.record, width)
            self._whole_record = ((screen.record, width), lines)
        lines = self._whole_record[1]
        screen.page = max(room - 1, 1)
        screen.record_top = max(min(screen.record_top, len(lines) - room), 0)
        shown = lines[screen.record_top : screen.record_top + room]
        if screen.record_top + room < len(lines):
            more = len(lines) - screen.record_top - room + 1
            shown = [*shown[:-1], [(f"… {count(more, 'more line')}", "dim")]]
        return shown

    def _table(self, model: Model, screen: Screen, width: int, room: int) -> list[Line]:
        tab, position = screen.shown, screen.position
        visible = screen.scroll(self._rows, room)
        columns = screen.columns()
        cells = [[printable(c.show(row[c.key])) for c in columns] for row in visible]
        heads_of, chosen, widths = self._layout(tab.name, columns, cells, width)
        screen.drawn = [columns[i].key for i in chosen]
        heads: Line = []
        for i in chosen:
            column = columns[i]
            mark = ("▼" if position.reverse else "▲") if column.key == position.sort else ""
            text = _aligned(f"{heads_of[i]}{mark}", widths[i], column.right)
            heads.append((text if i == chosen[-1] else text + GAP, "bold reverse"))
        lines = [_filled(heads, width, "bold reverse")]
        for n, row in enumerate(visible):
            here = position.selected is not None and position.top + n == position.index
            style = "reverse" if here else (tab.style(row) or "")
            text = GAP.join(
                _aligned(
                    cut(cells[n][i], widths[i]) if columns[i].how.flexible else cells[n][i],
                    widths[i],
                    columns[i].right,
                )
                for i in chosen
            )
            line: Line = [(text, style)]
            lines.append(_filled(line, width, style) if here else line)
        if not visible:
            lines.append([(_nothing(model, screen), "dim")])
        return lines

    def _layout(
        self,
        tab: str,
        columns: Sequence[TopColumn],
        cells: Sequence[Sequence[str]],
        width: int,
    ) -> tuple[list[str], list[int], list[int]]:
        """The headings, the indexes of the columns to show, and the width of each column."""
        for i, column in enumerate(columns):
            widest = max((cell_len(row[i]) for row in cells), default=0)
            key = (tab, column.key)
            self._widths[key] = max(widest, self._widths.get(key, 0))
        texts = (i for i, c in enumerate(columns) if not c.right)
        name = next((i for i, c in enumerate(columns) if c.how.flexible), next(texts, 0))
        kept = _VALUE_MIN if columns[name].how.flexible else _NAME_MIN

        def sizes(heads: Sequence[str]) -> tuple[list[int], list[int]]:
            """The width that each column needs, and the least that it accepts."""
            wanted = [
                max(self._widths[tab, column.key], cell_len(head) + 1)
                for column, head in zip(columns, heads, strict=True)
            ]
            least = list(wanted)
            least[name] = min(wanted[name], max(kept, len(heads[name]) + 1))
            return wanted, least

        heads = [column.title for column in columns]
        wanted, least = sizes(heads)
        chosen = list(range(len(columns)))
        if _total(least, chosen) > width:
            heads = list(map(short_head, heads))
            wanted, least = sizes(heads)
        while _total(least, chosen) > width and any(columns[i].how.drop_rank for i in chosen):
            chosen.remove(max(chosen, key=lambda i: columns[i].how.drop_rank))
        left = width - (_total(least, chosen) - least[name])
        widths = list(wanted)
        if columns[name].how.flexible:
            least[name] = len(heads[name]) + 1
        widths[name] = max(min(wanted[name], left), min(least[name], width))
        return heads, chosen, widths


def _total(widths: Sequence[int], chosen: Sequence[int]) -> int:
    return room_of([widths[i] for i in chosen])


def _aligned(text: str, width: int, right: bool) -> str:
    return pad(cut_middle(text, width) if cell_len(text) > width else text, width, right)


def fitted(line: Line, width: int) -> Line:
    """The part of a line that fits."""
    found: Line = []
    left = width
    for text, style in line:
        size = cell_len(text)
        if size > left:
            cut = set_cell_size(text, left - 1) + "…" if left > 1 and text.strip() else ""
            found.append((cut or set_cell_size(text, left), style))
            break
        found.append((text, style))
        left -= size
    return found


def _filled(line: Line, width: int, style: str) -> Line:
    used = sum(cell_len(text) for text, _ in line)
    return [*line, (" " * (width - used), style)] if used < width else line


def _both(left: Line, right: Line, width: int) -> Line:
    """Two texts in one line, the second right-aligned. The second is dropped if there is no
    space."""
    used = sum(cell_len(text) for text, _ in left)
    wanted = sum(cell_len(text) for text, _ in right)
    if used + wanted + 1 > width:
        return left
    return [*left, (" " * (width - used - wanted), ""), *right]


def _title(model: Model, status: Status, width: int) -> Line:
    up = sum(not node.fenced for node in model.nodes.values())
    known = len({*model.nodes, *model.holds})
    under, offline = len(model.under_replicated), len(model.offline)
    left: Line = [
        ("pk top ", "bold"),
        (cut_middle(printable(status.cluster), max(width - 50, 15)), ""),
    ]
    left.append((f"  {up}/{known} brokers", "" if up == known else "red"))
    if model.began_ms is not None:
        left.append((f"  {under} under-replicated", "yellow" if under else ""))
    if offline:
        left.append((f"  {offline} offline", "red"))
    clock = "" if status.at_ms is None else show_time(status.at_ms)[11:19]
    return _both(left, [(clock, "")], width)


def _tabs(screen: Screen, width: int) -> Line:
    line: Line = []
    for number, tab in enumerate(TABS, 1):
        here = tab.name == screen.tab
        line += [(f" {number} {tab.title} ", "reverse" if here else ""), (" ", "")]
    every = (f"every {screen.interval_s:g} s", "dim")
    if not screen.paused:
        return _both(line, [every], width)
    paused = ("PAUSED", "yellow")
    both = _both(line, [paused, (" ", ""), every], width)
    if both is not line:
        return both
    return _both(fitted(line, max(width - len(paused[0]) - 1, 0)), [paused], width)


def _summary(model: Model, screen: Screen, status: Status, width: int) -> list[Line]:
    """The lines above the table: its title, the filter, and the totals."""
    right: Line = []
    if screen.filter and screen.typing is None:
        right.append((f"/{printable(screen.filter)}", "yellow"))
    failed = screen.records is not None and model.records is not None and model.records.error
    left: Line = [(printable(_totals(model, screen, status)), "red" if failed else "dim")]
    return [_both(left, right, width)]


def _totals(model: Model, screen: Screen, status: Status) -> str:
    if model.began_ms is None:
        return "Loading topics …"
    match screen.shown.name:
        case "cluster":
            parts = [
                count(len(model.topics), "topic"),
                count(len(model.partitions), "partition"),
                f"{show_rate(_total_rate(model))} records/s in",
                *_request_totals(model),
            ]
            if model.controller is not None:
                parts.append(f"controller {model.controller}")
            if model.cluster_id:
                parts.append(f"id {model.cluster_id}")
            return " · ".join(parts)
        case "topics":
            shown = [t for t in model.topics.values() if screen.internal or not t.internal]
            rates = [rate for t in shown if (rate := model.topic_rate(t.name)) is not None]
            rate = show_rate(sum(rates) if rates else None)
            return f"{count(len(shown), 'topic')} · {rate} records/s in"
        case "topic" | "group":
            return f"{screen.shown.title} {screen.subject} (esc goes back)"
        case "records":
            return _record_totals(model.records)
        case "groups":
            return _group_totals(model)
        case "isr":
            return _isr_totals(model, status)
        case "requests":
            if model.metrics_missing is not None:
                return model.metrics_missing
            return " · ".join(_request_totals(model)) or "Loading the brokers' metrics …"
        case _:
            if not model.moves_seen:
                return "Loading reassignments …"
            whole = model.moves.whole
            if not whole.partitions:
                return "Nothing is being reassigned."
            return sentence(whole, model.throttle)


def _total_rate(model: Model) -> float | None:
    rates = [model.ends.rate(tp) for tp in model.partitions]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _request_totals(model: Model) -> list[str]:
    """The requests per second, and how long the most important ones take. Empty without metrics."""
    times = model.request_times
    keys = times.sampled()
    rates = [rate for key in keys if (rate := times.rate(key)) is not None]
    if not rates:
        return []
    parts = [f"{show_rate(sum(rates))} requests/s"]
    for api in ("Produce", "Fetch"):
        p99 = times.together([key for key in keys if key[1] == api], 0.99)
        if p99 is not None:
            parts.append(f"{api} p99 {show_ms(p99)} ms")
    return parts


def _record_totals(found: Found | None) -> str:
    if found is None:
        return "Reading …"
    wanted = found.wanted
    if found.error is not None:
        return f"{wanted.name}: {found.error}"
    if wanted.filter:
        state = "" if found.complete else "Reading … "
        read = count(found.read, "record")
        if len(found.pairs) < wanted.number:
            text = f"{state}{len(found.pairs):,} of the {read} read match"
        else:  # there may be more
            text = f"{state}the newest {len(found.pairs):,} that match, in {read} read"
    elif not found.complete:
        text = "reading …"
    else:
        text = f"the newest {count(len(found.pairs), 'record')}"
    if found.leaderless:
        text += f"; {count(found.leaderless, 'partition')} without a leader not read"
    return f"{wanted.name}: {text}"


def _group_totals(model: Model) -> str:
    if model.groups is None:
        return "Loading groups …"
    lags = [model.group_lag(name) for name in model.groups]
    known = [lag for lag in lags if lag is not None]
    asked = f", {len(known):,} loaded so far" if len(known) < len(lags) else ""
    return f"{count(len(lags), 'group')}{asked} · {count(sum(known), 'record')} behind in all"


def _isr_totals(model: Model, status: Status) -> str:
    if not model.unhealthy:
        return f"Every replica of {count(len(model.partitions), 'partition')} is in sync."
    out: dict[int, int] = {}
    for tp in model.unhealthy:
        for broker in model.missing(tp):
            out[broker] = out.get(broker, 0) + 1
    brokers = ", ".join(f"broker {b} of {n:,}" for b, n in sorted(out.items()))
    lacking = f"out of sync: {brokers}" if brokers else ""
    parts = (f"{count(len(model.unhealthy), 'partition')} unhealthy", lacking)
    return " · ".join(filter(None, parts))


def _below(model: Model, screen: Screen, width: int, height: int) -> list[Line]:
    """The lines below the table: on the ISR tab, the timeline and the last events."""
    if screen.shown.name != "isr":
        return []
    room = max((height - 8) // 3, 1)
    lines = timeline(model, width)
    for events in together(model.events)[-room:]:
        row = events[0].row
        brokers = ",".join(map(str, row["brokers"]))
        names = join([f"{e.row['topic']}/{e.row['partition']}" for e in events], 3)
        if len(events) > 1:
            names = f"{len(events):,} partitions: {names}"
        gone = row["out_for_ms"]
        back = f"  after {show_span(gone)}" if gone is not None else ""
        text = (
            f"{show_time(events[0].at_ms)[11:19]}  {row['event']:<7}  broker {brokers}{back}  "
            f"{names}"
        )
        style = {"shrink": "yellow", "offline": "red", "expand": "green"}.get(row["event"], "")
        lines.append([(printable(text), style)])
    return lines


def together(events: Iterable[Event]) -> list[list[Event]]:
    """Merge events that occurred at the same time and differ only in the partition. Keeps the
    order."""
    found: dict[tuple[int, str, tuple[int, ...]], list[Event]] = {}
    for event in events:
        key = (event.at_ms, event.row["event"], tuple(event.row["brokers"]))
        found.setdefault(key, []).append(event)
    return list(found.values())


_CELL_MS = 10_000


def timeline(model: Model, width: int, now_ms: int | None = None) -> list[Line]:
    """How often replicas left and joined the ISR: each cell is ten seconds, the latest at the
    right."""
    cells = min(max(width - 40, 10), 90)
    shrinks, expands = [0.0] * cells, [0.0] * cells
    if model.began_ms is None:
        return []
    newest = now_ms if now_ms is not None else model.seen_ms
    for event in model.events:
        at = cells - 1 - (newest // _CELL_MS - event.at_ms // _CELL_MS)
        if 0 <= at < cells and event.row["event"] in ("shrink", "expand"):
            (shrinks if event.row["event"] == "shrink" else expands)[at] += 1
    span = show_span(cells * _CELL_MS)
    lines: list[Line] = [[]]
    for word, values, style in (("shrink", shrinks, "yellow"), ("expand", expands, "green")):
        total = round(sum(values))
        line: Line = [(f"{word}  ", "dim"), (spark(values, cells), style if total else "dim")]
        lines.append([*line, (f"  {total} in {span}", "dim")])
    return lines


def _nothing(model: Model, screen: Screen) -> str:
    if model.began_ms is None:
        return ""
    if screen.records is not None and (model.records is None or not model.records.complete):
        return ""
    if screen.filter:
        return "Nothing matches; esc clears the filter."
    match screen.shown.name:
        case "records":
            return "There are no records."
        case "groups":
            return "" if model.groups is None else "There are no groups."
        case "topics":
            return "There are no topics; i shows the internal ones."
        case "topic":
            return "The topic is gone; esc goes back."
        case "group":
            known = model.groups is None or screen.subject in model.groups
            return (
                "The group has no committed offsets."
                if known
                else "The group is gone; esc goes back."
            )
        case _:
            return ""


def _help() -> list[Line]:
    lines: list[Line] = [[]]
    for keys, what in HELP:
        lines.append([(f"  {keys:<18}", "bold"), (what, "")])
    lines.append([])
    lines.append([("  Press any key to go back.", "dim")])
    return lines


def _foot(screen: Screen, status: Status, width: int) -> Line:
    if screen.typing is not None:
        about = ", e.g. paid, or value.user = 7" if screen.records is not None else ""
        return [
            ("/", "bold"),
            (printable(screen.typing), ""),
            ("█", ""),
            (f"  enter applies it, esc clears it{about}", "dim"),
        ]
    if status.trouble is not None:
        when = f"As of {show_time(status.at_ms)[11:19]}. " if status.at_ms is not None else ""
        return _filled(
            [(f"{when}{printable(status.trouble)}", "bold reverse red")],
            width,
            "bold reverse red",
        )
    if screen.record is not None:
        words = ["↑ ↓ scroll", "n next", "p previous", "esc back"]
    elif screen.records is not None:
        words = ["/ filter", "enter opens", "o older", "s sort", "p pause", "? help", "esc back"]
    else:
        words = ["1-6 tabs", "/ filter", "s sort"]
        if screen.shown.opens:
            words.append("enter opens")
        if screen.shown.name in ("topics", "topic"):
            words.append("v records")
        words += ["p pause", "? help", "q back" if screen.path else "q quit"]
    return [("  ".join(words), "dim")]
