"""How `pk top` looks: lines of styled pieces for a terminal of any size, made from the model and what was chosen. Pure.

A line is a list of (text, style); a style is in rich's words. The name column takes what the others leave and is cut in
its middle, so that the ends of long names still tell them apart. Column widths only grow while the terminal keeps its size,
so that the table does not tremble.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pk.cli.cluster.reassignment_progress import sentence
from pk.cli.output.amounts import show_rate
from pk.cli.output.formats import Row
from pk.cli.positions.times import show_span, show_time
from pk.cli.runtime.context import count, join
from pk.cli.terminal.text import cut_middle, printable
from pk.cli.top.model import Event, Model
from pk.cli.top.state import HELP, Screen
from pk.cli.top.tables import TABS, TopColumn, spark

Piece = tuple[str, str]
Line = list[Piece]

_GAP = 2
_NAME_MIN = 20
"""Columns make room until names have so many cells."""
_SMALLEST = (40, 8)


class Told(NamedTuple):
    """What is to be told beside the model."""

    cluster: str
    at_ms: int | None
    """When the picture was taken, epoch milliseconds."""

    now_ms: int
    trouble: str | None = None
    stale: bool = False
    """Whether the picture has aged: it is drawn faintly."""


class Painter:
    """Lays the screen out; remembers column widths from one picture to the next."""

    def __init__(self) -> None:
        self._widths: dict[tuple[str, str], int] = {}
        self._size = (0, 0)
        self._made: tuple[object, Sequence[Row]] = (None, ())
        self._rows: Sequence[Row] = ()
        self._shown = Screen().shown.name

    def rows(self, screen: Screen) -> Sequence[Row]:
        """The rows of the table as they were last arranged: what the keys act on. None where another tab was drawn."""
        return self._rows if self._shown == screen.shown.name else ()

    def lines(
        self, model: Model, screen: Screen, told: Told, width: int, height: int
    ) -> list[Line]:
        """The whole screen: exactly `height` lines, none wider than `width`."""
        if (width, height) != self._size:
            self._size = (width, height)
            self._widths.clear()
        tab = screen.shown
        self._shown = tab.name
        known = (tab.name, screen.subject, model.version)
        if self._made[0] != known:
            self._made = (known, tab.rows(model, screen.subject, told.now_ms))
        self._rows = screen.arrange(self._made[1])
        if width < _SMALLEST[0] or height < _SMALLEST[1]:
            lines: list[Line] = [[(f"pk top wants {_SMALLEST[0]}×{_SMALLEST[1]}; q ends.", "")]]
        else:
            lines = self._whole(model, screen, told, width, height)
        if told.stale:
            lines = [[(text, style or "dim") for text, style in line] for line in lines]
        lines = [fitted(line, width) for line in lines[:height]]
        return lines + [[] for _ in range(height - len(lines))]

    def _whole(
        self, model: Model, screen: Screen, told: Told, width: int, height: int
    ) -> list[Line]:
        head = [_title(model, told, width), _tabs(screen, width)]
        foot = [_foot(screen, told, width)]
        if screen.help:
            body = _help()
        else:
            above = _summary(model, screen, told, width)
            below = _below(model, screen, width, height)
            room = height - len(head) - len(above) - len(below) - len(foot) - 1
            body = [*above, *self._table(model, screen, width, max(room, 1))]
            free = height - len(head) - len(foot) - len(body) - len(below)
            body += [[] for _ in range(free)]
            body += below
        body = body[: height - len(head) - len(foot)]
        body += [[] for _ in range(height - len(head) - len(foot) - len(body))]
        return [*head, *body, *foot]

    def _table(self, model: Model, screen: Screen, width: int, room: int) -> list[Line]:
        tab, position = screen.shown, screen.position
        visible = screen.scroll(self._rows, room)
        columns = screen.columns()
        cells = [[printable(c.show(row[c.key])) for c in columns] for row in visible]
        chosen, widths = self._layout(tab.name, columns, cells, width)
        screen.drawn = [columns[i].key for i in chosen]
        heads: Line = []
        for i in chosen:
            column = columns[i]
            mark = ("▼" if position.reverse else "▲") if column.key == position.sort else ""
            text = _aligned(f"{column.title}{mark}", widths[i], column.right)
            heads.append((text if i == chosen[-1] else text + " " * _GAP, "bold reverse"))
        lines = [_filled(heads, width, "bold reverse")]
        for n, row in enumerate(visible):
            here = position.selected is not None and position.top + n == position.index
            style = "reverse" if here else (tab.style(row) or "")
            text = (" " * _GAP).join(
                _aligned(cells[n][i], widths[i], columns[i].right) for i in chosen
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
    ) -> tuple[list[int], list[int]]:
        """Which columns are shown, by index, and how wide each is."""
        wanted: list[int] = []
        for i, column in enumerate(columns):
            widest = max((cell_len(row[i]) for row in cells), default=0)
            key = (tab, column.key)
            wanted.append(max(widest, cell_len(column.title) + 1, self._widths.get(key, 0)))
            self._widths[key] = wanted[-1]
        name = next((i for i, c in enumerate(columns) if not c.right), 0)
        least = list(wanted)
        least[name] = min(wanted[name], max(_NAME_MIN, len(columns[name].title) + 1))
        chosen = list(range(len(columns)))
        while _total(least, chosen) > width and any(columns[i].drop for i in chosen):
            chosen.remove(max(chosen, key=lambda i: columns[i].drop))
        left = width - (_total(least, chosen) - least[name])
        widths = list(wanted)
        widths[name] = max(min(wanted[name], left), min(least[name], width))
        return chosen, widths


def _total(widths: Sequence[int], chosen: Sequence[int]) -> int:
    return sum(widths[i] for i in chosen) + _GAP * (len(chosen) - 1)


def _aligned(text: str, width: int, right: bool) -> str:
    size = cell_len(text)
    if size > width:
        return cut_middle(text, width)
    return " " * (width - size) + text if right else text + " " * (width - size)


def fitted(line: Line, width: int) -> Line:
    """The pieces of a line that fit."""
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
    """Two lines in one, the second at the right edge; it is left out where there is no room."""
    used = sum(cell_len(text) for text, _ in left)
    wanted = sum(cell_len(text) for text, _ in right)
    if used + wanted + 1 > width:
        return left
    return [*left, (" " * (width - used - wanted), ""), *right]


def _title(model: Model, told: Told, width: int) -> Line:
    up = sum(not node.fenced for node in model.nodes.values())
    known = len({*model.nodes, *model.holds})
    under, offline = len(model.under_replicated), len(model.offline)
    left: Line = [
        ("pk top ", "bold"),
        (cut_middle(printable(told.cluster), max(width - 50, 15)), ""),
    ]
    left.append((f"  {up}/{known} brokers", "" if up == known else "red"))
    if model.began_ms is not None:
        left.append((f"  {under} under-replicated", "yellow" if under else ""))
    if offline:
        left.append((f"  {offline} offline", "red"))
    clock = "" if told.at_ms is None else show_time(told.at_ms)[11:19]
    return _both(left, [(clock, "")], width)


def _tabs(screen: Screen, width: int) -> Line:
    line: Line = []
    for number, tab in enumerate(TABS, 1):
        here = tab.name == screen.tab
        line += [(f" {number} {tab.title} ", "reverse" if here else ""), (" ", "")]
    right: Line = [("PAUSED ", "yellow")] if screen.paused else []
    right.append((f"every {screen.interval_s:g} s", "dim"))
    return _both(line, right, width)


def _summary(model: Model, screen: Screen, told: Told, width: int) -> list[Line]:
    """The line above the table: what it is of, what the filter leaves, totals."""
    right: Line = []
    if screen.filter and screen.typing is None:
        right.append((f"/{printable(screen.filter)}", "yellow"))
    left: Line = [(printable(_totals(model, screen, told)), "dim")]
    return [_both(left, right, width)]


def _totals(model: Model, screen: Screen, told: Told) -> str:
    if model.began_ms is None:
        return "Asking for the topics …"
    match screen.shown.name:
        case "cluster":
            parts = [
                count(len(model.topics), "topic"),
                count(len(model.partitions), "partition"),
                f"{show_rate(_total_rate(model))} records/s in",
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
        case "groups":
            return _group_totals(model)
        case "isr":
            return _isr_totals(model, told)
        case _:
            if not model.moves_seen:
                return "Asking what is being reassigned …"
            whole = model.moves.whole
            if not whole.partitions:
                return "Nothing is being reassigned."
            return sentence(whole, model.throttle)


def _total_rate(model: Model) -> float | None:
    rates = [model.ends.rate(tp) for tp in model.partitions]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _group_totals(model: Model) -> str:
    if model.groups is None:
        return "Asking for the groups …"
    lags = [model.group_lag(name) for name in model.groups]
    known = [lag for lag in lags if lag is not None]
    asked = f", {len(known):,} asked so far" if len(known) < len(lags) else ""
    return f"{count(len(lags), 'group')}{asked} · {count(sum(known), 'record')} behind in all"


def _isr_totals(model: Model, told: Told) -> str:
    if not model.ailing:
        return f"Every replica of {count(len(model.partitions), 'partition')} is in sync."
    out: dict[int, int] = {}
    for tp in model.ailing:
        for broker in model.missing(tp):
            out[broker] = out.get(broker, 0) + 1
    brokers = ", ".join(f"broker {b} of {n:,}" for b, n in sorted(out.items()))
    lacking = f"out of sync: {brokers}" if brokers else ""
    parts = (f"{count(len(model.ailing), 'partition')} not whole", lacking)
    return " · ".join(filter(None, parts))


def _below(model: Model, screen: Screen, width: int, height: int) -> list[Line]:
    """What stands below the table: on the ISR tab its timeline and the last events."""
    if screen.shown.name != "isr":
        return []
    room = max((height - 8) // 3, 1)
    lines = timeline(model, width)
    for told in together(model.events)[-room:]:
        row = told[0].row
        brokers = ",".join(map(str, row["brokers"]))
        names = join([f"{e.row['topic']}/{e.row['partition']}" for e in told], 3)
        if len(told) > 1:
            names = f"{len(told):,} partitions: {names}"
        gone = row["out_for_ms"]
        back = f"  after {show_span(gone)}" if gone is not None else ""
        text = (
            f"{show_time(told[0].at_ms)[11:19]}  {row['event']:<7}  broker {brokers}{back}  {names}"
        )
        style = {"shrink": "yellow", "offline": "red", "expand": "green"}.get(row["event"], "")
        lines.append([(printable(text), style)])
    return lines


def together(events: Iterable[Event]) -> list[list[Event]]:
    """Events that came together and say the same of several partitions, in the order in which they came."""
    found: dict[tuple[int, str, tuple[int, ...]], list[Event]] = {}
    for event in events:
        key = (event.at_ms, event.row["event"], tuple(event.row["brokers"]))
        found.setdefault(key, []).append(event)
    return list(found.values())


_CELL_MS = 10_000


def timeline(model: Model, width: int, now_ms: int | None = None) -> list[Line]:
    """How often replicas left and joined, ten seconds a cell, the newest at the right."""
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
    if screen.filter:
        return "Nothing matches; esc forgets the filter."
    match screen.shown.name:
        case "groups":
            return "" if model.groups is None else "There are no groups."
        case "topics":
            return "There are no topics; i shows the internal ones."
        case "topic":
            return "The topic is gone; esc goes back."
        case "group":
            known = model.groups is None or screen.subject in model.groups
            return "It has committed nothing." if known else "The group is gone; esc goes back."
        case _:
            return ""


def _help() -> list[Line]:
    lines: list[Line] = [[]]
    for keys, what in HELP:
        lines.append([(f"  {keys:<18}", "bold"), (what, "")])
    lines.append([])
    lines.append([("  Any key goes back.", "dim")])
    return lines


def _foot(screen: Screen, told: Told, width: int) -> Line:
    if screen.typing is not None:
        return [
            ("/", "bold"),
            (printable(screen.typing), ""),
            ("█", ""),
            ("  enter keeps it, esc forgets it", "dim"),
        ]
    if told.trouble is not None:
        when = f"As of {show_time(told.at_ms)[11:19]}. " if told.at_ms is not None else ""
        return _filled(
            [(f"{when}{printable(told.trouble)}", "bold reverse red")],
            width,
            "bold reverse red",
        )
    words = ["1-5 tabs", "/ filter", "s sort", "r reverse"]
    if screen.shown.opens:
        words.append("enter opens")
    words += ["p pause", "? help", "q quit"]
    return [("  ".join(words), "dim")]


def texts(lines: Sequence[Line]) -> list[Text]:
    """The lines as rich draws them."""
    return [Text.assemble(*line) for line in lines]
