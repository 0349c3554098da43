"""The effects of the keys of `pk top` on tab, row, filter and order. Pure; the keys are those of
k9s and htop.

The selected row is identified by its name, so that it stays selected when the order changes, and by
its index once it is gone. `press` returns the actions needed in addition to a redraw.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from pk.cli.output.formats import Listing, OutputOptions, Row, narrow, plain
from pk.cli.records.range_reader import Pair
from pk.cli.top.records import Wanted
from pk.cli.top.rows import DRAWN_AS
from pk.cli.top.tables import BY_NAME, TABS, Tab, TopColumn, snapshot_columns

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

HELP = (
    ("1 … 6, tab, ← →", "cluster, topics, groups, ISR, reassignments, requests"),
    ("↑ ↓, j k", "move; page up and down, g and G for first and last"),
    ("enter", "open a topic, a group, a partition, a record"),
    ("v", "view the newest records of the topic; o adds older ones"),
    ("esc, q", "go back; q quits from a tab"),
    ("/, f4", "filter rows by name (a pattern); esc clears it"),
    ("", "records: a pattern for key and value, or a condition"),
    ("", "as for consume --where, such as value.user = 7"),
    ("s, S, < >, f6", "sort by the next or previous column"),
    ("r", "reverse the order"),
    ("i", "show or hide internal topics"),
    ("p, space", "pause, resume"),
    ("+ −", "refresh more often, less often"),
    ("ctrl-l", "redraw"),
    ("?, h, f1", "this help"),
    ("Q, f10, ctrl-c", "quit"),
)
_SAME = {"f1": "?", "f3": "/", "f4": "/", "f6": "s", "f10": "Q"}
"""The function keys of htop → the same keys of pk."""


@dataclass
class TablePosition:
    """The selection, scroll position and order of a table."""

    sort: str
    reverse: bool
    """Whether the largest values come first."""

    filter: str = ""
    selected: Any = None
    index: int = 0
    top: int = 0


_RECORDS = 100
_RECORDS_MAX = 3200


class Opened(NamedTuple):
    """The open tab, and the open topic or group."""

    tab: str
    subject: str
    partition: int | None = None
    """The partition whose records are open; None for those of all partitions."""


def first_position(tab: Tab[Any]) -> TablePosition:
    """The position with which a tab starts."""
    column = next(c for c in tab.columns if c.key == tab.sort)
    return TablePosition(tab.sort, column.how.falling)


@dataclass
class Screen:
    """The user's choices: tab, row, filter and order."""

    tab: str = "cluster"
    interval_s: float = 2.0
    paused: bool = False
    help: bool = False
    internal: bool = False
    typing: str | None = None
    """The filter being typed; None if the user is not typing one."""

    path: list[Opened] = field(default_factory=list[Opened])
    """The stack of views, each opened from the one before; the first is opened from the tab."""

    record: Pair | None = None
    """The record that is shown whole."""

    record_top: int = 0
    """The first line of the record on the screen."""

    number: int = _RECORDS
    """The number of records to read."""

    positions: dict[str, TablePosition] = field(default_factory=dict[str, TablePosition])
    page: int = 10
    """The number of rows that fitted when the screen was last drawn."""

    drawn: Sequence[str] = ()
    """The columns that fitted when the screen was last drawn."""

    asked: tuple[str, OutputOptions] | None = None
    """The tab to which --where, --columns, --sort and --limit apply, and their values."""

    @property
    def opened(self) -> Opened | None:
        """The view that was opened last."""
        return self.path[-1] if self.path else None

    @property
    def records(self) -> Wanted | None:
        """The records to read for the screen."""
        opened = self.opened
        if opened is None or opened.tab != "records":
            return None
        return Wanted(opened.subject, opened.partition, self.position.filter, self.number)

    @property
    def shown(self) -> Tab[Any]:
        """The tab whose table is on the screen."""
        return BY_NAME[self.opened.tab if self.opened else self.tab]

    @property
    def subject(self) -> str | None:
        return self.opened.subject if self.opened else None

    @property
    def position(self) -> TablePosition:
        tab = self.shown
        return self.positions.setdefault(tab.name, first_position(tab))

    @property
    def filter(self) -> str:
        """The filter that applies, even while it is being typed."""
        return self.position.filter if self.typing is None else self.typing

    def narrow_to(self, options: OutputOptions) -> None:
        """Apply the options of a list to the first tab. Raises Unusable."""
        if not options.narrows:
            return
        tab = self.shown
        narrow(Listing(snapshot_columns(tab), []), options)  # refuses unknown columns
        self.asked = (tab.name, options)
        if options.sort:
            name = options.sort[0].lstrip("-+").lower().replace("-", "_")
            self.position.sort = DRAWN_AS.get(name, name)
            self.position.reverse = options.sort[0].startswith("-")

    def columns(self) -> Sequence[TopColumn]:
        """The columns of the table: the requested ones, or else all."""
        tab = self.shown
        if self.asked is None or self.asked[0] != tab.name or not self.asked[1].columns:
            return [column for column in tab.columns if not column.how.only_snapshot]
        narrowed = narrow(Listing(snapshot_columns(tab), []), self.asked[1]).columns
        keys = dict.fromkeys(DRAWN_AS.get(c.key, c.key) for c in narrowed)
        return [next(c for c in tab.columns if c.key == key) for key in keys]

    def arrange(self, rows: Sequence[Row]) -> list[Row]:
        """The filtered rows in order. Updates the index of the selected row."""
        tab, position = self.shown, self.position
        limit = None
        if self.asked is not None and self.asked[0] == tab.name:
            options = self.asked[1]._replace(columns=(), sort=(), limit=None)
            rows = narrow(Listing(snapshot_columns(tab), rows), options).rows
            limit = self.asked[1].limit
        left = list(rows) if tab.name == "records" else filtered(rows, tab, self.filter)
        if tab.name == "topics" and not self.internal and not self.filter:
            left = [row for row in left if not row["internal"]]
        left = ordered(left, position.sort, reverse=position.reverse)[:limit]
        self._find(left, tab.key, position)
        return left

    def _find(
        self, rows: Sequence[Row], key: Callable[[Row], Any], position: TablePosition
    ) -> None:
        keys = [key(row) for row in rows]
        if position.selected in keys:
            position.index = keys.index(position.selected)
        else:
            position.index = min(max(position.index, 0), max(len(rows) - 1, 0))
            position.selected = (
                keys[position.index] if keys and position.selected is not None else None
            )

    def scroll(self, rows: Sequence[Row], room: int) -> Sequence[Row]:
        """The visible rows if there is space for `room` rows."""
        position = self.position
        self.page = max(room, 1)
        if position.index < position.top:
            position.top = position.index
        elif position.index >= position.top + room:
            position.top = position.index - room + 1
        position.top = max(min(position.top, len(rows) - room), 0)
        return rows[position.top : position.top + room]

    def press(self, key: str, rows: Sequence[Row]) -> str | None:
        """Handle a key. Returns `quit`, `refresh` if data must be requested again, `redraw`, or
        None."""
        if self.typing is not None:
            self._type(key)
            return None
        key = _SAME.get(key, key)
        if self.help:
            self.help = False
            return "quit" if key in ("q", "Q") else None
        if key == "Q" or (key == "q" and not self.path):
            return "quit"
        if key == "redraw":
            return "redraw"
        if self.record is not None:
            self._read(key, rows)
            return None
        return (
            self._open(key, rows) or self._choose(key) or self._move(key, rows) or self._order(key)
        )

    def _type(self, key: str) -> None:
        assert self.typing is not None
        position = self.position
        if key == "enter":
            position.filter, self.typing = self.typing, None
        elif key == "escape":
            self.typing = None
            position.filter = ""
        elif key in ("backspace", "clear"):
            self.typing = self.typing[:-1] if key == "backspace" else ""
        elif len(key) == 1:
            self.typing += key
        position.index = position.top = 0
        position.selected = None

    def _choose(self, key: str) -> str | None:
        names = [tab.name for tab in TABS]
        now = names.index(self.tab)
        if key.isdecimal() and 1 <= int(key) <= len(names):
            return self._go(names[int(key) - 1])
        if key in ("tab", "right"):
            return self._go(names[(now + 1) % len(names)])
        if key in ("back-tab", "left") and not (key == "left" and self.opened):
            return self._go(names[(now - 1) % len(names)])
        if key in ("escape", "backspace", "left", "q"):
            if self.position.filter and key == "escape":
                self.position.filter = ""
            elif self.path:
                self.path.pop()
                return "refresh"
        elif key in ("?", "h"):
            self.help = True
        elif key in ("p", " "):
            self.paused = not self.paused
            return None if self.paused else "refresh"
        elif key in ("+", "=", "-", "_"):
            self._interval(-1 if key in "+=" else 1)
            return "refresh"
        elif key == "i":
            self.internal = not self.internal
        elif key == "/":
            self.typing = self.position.filter
        return None

    def _go(self, name: str) -> str:
        self.tab = name
        self.path.clear()
        return "refresh"

    def _open(self, key: str, rows: Sequence[Row]) -> str | None:
        """Open the selected row, or the records of its topic."""
        tab, opened = self.shown, self.opened
        row = rows[min(self.position.index, len(rows) - 1)] if rows else None
        if tab.name == "records":
            if key == "o":
                self.number = min(2 * self.number, _RECORDS_MAX)
            elif key == "enter" and row is not None:
                self.record, self.record_top = row["pair"], 0
            return None
        to = Opened("records", "")
        if key == "v" and opened is not None and opened.tab == "topic":
            to = Opened("records", opened.subject)
        elif key == "v" and row is not None and "topic" in row:
            to = Opened("records", row["topic"], row.get("partition"))
        elif key != "enter" or row is None or tab.opens is None:
            return None
        elif tab.opens == "records":
            assert opened is not None
            to = Opened("records", opened.subject, row["partition"])
        else:
            to = Opened(tab.opens, str(tab.key(row)))
        self.path.append(to)
        self.positions.pop(to.tab, None)
        self.number = _RECORDS
        return "refresh"

    def _read(self, key: str, rows: Sequence[Row]) -> None:
        """Handle a key while a whole record is shown."""
        if key in ("escape", "q", "enter", "backspace", "left"):
            self.record = None
        elif key in ("n", "p") and rows:
            position = self.position
            position.index = min(max(position.index + (1 if key == "n" else -1), 0), len(rows) - 1)
            position.selected = self.shown.key(rows[position.index])
            self.record, self.record_top = rows[position.index]["pair"], 0
        else:
            steps = _steps(self.page, 1 << 30) | {" ": self.page}
            self.record_top = max(self.record_top + steps.get(key, 0), 0)

    def _interval(self, step: int) -> None:
        if step > 0:
            self.interval_s = next((s for s in INTERVALS if s > self.interval_s), INTERVALS[-1])
        else:
            lower = [s for s in INTERVALS if s < self.interval_s]
            self.interval_s = lower[-1] if lower else INTERVALS[0]

    def _move(self, key: str, rows: Sequence[Row]) -> str | None:
        tab, position = self.shown, self.position
        steps = _steps(self.page, len(rows))
        if key not in steps or not rows:
            return None
        if position.selected is not None or key not in ("down", "j"):
            position.index = min(max(position.index + steps[key], 0), len(rows) - 1)
        position.selected = tab.key(rows[position.index])
        return None

    def _order(self, key: str) -> str | None:
        tab, position = self.shown, self.position
        drawn = self.drawn or [c.key for c in tab.columns if not c.how.only_snapshot]
        keys = [c.key for c in sortable(tab) if c.key in drawn]
        if key in ("s", ">", "S", "<"):
            step = 1 if key in ("s", ">") else -1
            at = keys.index(position.sort) if position.sort in keys else 0
            position.sort = keys[(at + step) % len(keys)]
            position.reverse = next(c.how.falling for c in tab.columns if c.key == position.sort)
        elif key in ("r", "R"):
            position.reverse = not position.reverse
        else:
            return None
        position.index = position.top = 0
        position.selected = None
        return None


def _steps(page: int, all_lines: int) -> dict[str, int]:
    """The number of lines that each key moves."""
    return {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "page-up": -page,
        "page-down": page,
        "home": -all_lines,
        "g": -all_lines,
        "end": all_lines,
        "G": all_lines,
    }


def sortable(tab: Tab[Any]) -> list[TopColumn]:
    """The columns that rows can be sorted by."""
    return [column for column in tab.columns if column.how.sorts]


def filtered(rows: Sequence[Row], tab: Tab[Any], text: str) -> list[Row]:
    """The rows whose name matches the regular expression `text`, or contains `text` if it is not a
    valid one."""
    if not text:
        return list(rows)
    import re

    try:
        pattern = re.compile(text, re.IGNORECASE)
    except re.error:
        pattern = re.compile(re.escape(text), re.IGNORECASE)
    keys = [c.key for c in tab.columns if c.key in ("topic", "group", "address", "state")]
    keys = keys or [tab.columns[0].key]
    return [row for row in rows if any(pattern.search(plain(row[key])) for key in keys)]


def ordered(rows: Sequence[Row], sort: str, *, reverse: bool) -> list[Row]:
    """The rows in order. Unknown values come last in either direction; equal rows stay in the order
    of their names."""
    key = "zero_s" if sort == "to_zero" else sort
    known = [row for row in rows if row[key] is not None]
    known.sort(key=lambda row: _comparable(row[key]), reverse=reverse)
    return known + [row for row in rows if row[key] is None]


def _comparable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return (1, len(cast("Sequence[Any]", value)), plain(value))
    if isinstance(value, (int, float)):
        return (0, value, "")
    return (1, 0, plain(value).lower())
