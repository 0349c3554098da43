"""What the keys of `pk top` do: tab, row, filter, order. Pure; the keys are those of k9s and htop.

The selected row is kept by name, so that it stays selected when the order changes, and by index
once it is gone. `press` returns what must happen beyond a redraw.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from pk.cli.output.formats import Listing, OutputOptions, Row, narrow, plain
from pk.cli.top.rows import DRAWN_AS
from pk.cli.top.tables import BY_NAME, TABS, Tab, TopColumn, snapshot_columns

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

HELP = (
    ("1 … 6, tab, ← →", "cluster, topics, groups, ISR, reassignments, requests"),
    ("↑ ↓, j k", "move; page up and down, g and G for first and last"),
    ("enter", "open a topic or a group; esc goes back"),
    ("/, f4", "filter rows by name (a pattern); esc clears it"),
    ("s, S, < >, f6", "sort by the next or previous column"),
    ("r", "reverse the order"),
    ("i", "show or hide internal topics"),
    ("p, space", "pause, resume"),
    ("+ −", "refresh more often, less often"),
    ("ctrl-l", "redraw"),
    ("?, h, f1", "this help"),
    ("q, f10, ctrl-c", "quit"),
)
_SAME = {"f1": "?", "f3": "/", "f4": "/", "f6": "s", "f10": "q"}
"""The function keys of htop."""


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


class Opened(NamedTuple):
    """The open tab, and the open topic or group."""

    tab: str
    subject: str


def first_position(tab: Tab[Any]) -> TablePosition:
    """The position with which a tab starts."""
    column = next(c for c in tab.columns if c.key == tab.sort)
    return TablePosition(tab.sort, column.how.falling)


@dataclass
class Screen:
    """The user's choices: tab, row, filter, order."""

    tab: str = "cluster"
    interval_s: float = 2.0
    paused: bool = False
    help: bool = False
    internal: bool = False
    typing: str | None = None
    """The filter being typed; None if none is."""

    opened: Opened | None = None
    positions: dict[str, TablePosition] = field(default_factory=dict[str, TablePosition])
    page: int = 10
    """Rows that fit, as of the last drawing."""

    drawn: Sequence[str] = ()
    """The columns that fit, as of the last drawing."""

    asked: tuple[str, OutputOptions] | None = None
    """The tab to which --where, --columns, --sort and --limit apply, and their values."""

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
        """The filter that applies, also while it is being typed."""
        return self.position.filter if self.typing is None else self.typing

    def narrow_to(self, options: OutputOptions) -> None:
        """Applies the options of a list to the first tab. Raises Unusable."""
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
        """The columns of the table: those asked for, else all."""
        tab = self.shown
        if self.asked is None or self.asked[0] != tab.name or not self.asked[1].columns:
            return [column for column in tab.columns if not column.how.only_snapshot]
        narrowed = narrow(Listing(snapshot_columns(tab), []), self.asked[1]).columns
        keys = dict.fromkeys(DRAWN_AS.get(c.key, c.key) for c in narrowed)
        return [next(c for c in tab.columns if c.key == key) for key in keys]

    def arrange(self, rows: Sequence[Row]) -> list[Row]:
        """The filtered rows in order; updates the index of the selected row."""
        tab, position = self.shown, self.position
        limit = None
        if self.asked is not None and self.asked[0] == tab.name:
            options = self.asked[1]._replace(columns=(), sort=(), limit=None)
            rows = narrow(Listing(snapshot_columns(tab), rows), options).rows
            limit = self.asked[1].limit
        left = filtered(rows, tab, self.filter)
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
        """The visible rows if `room` rows fit."""
        position = self.position
        self.page = max(room, 1)
        if position.index < position.top:
            position.top = position.index
        elif position.index >= position.top + room:
            position.top = position.index - room + 1
        position.top = max(min(position.top, len(rows) - room), 0)
        return rows[position.top : position.top + room]

    def press(self, key: str, rows: Sequence[Row]) -> str | None:
        """Handles a key. Returns `quit`, `refresh` if the cluster must be asked again, `redraw`, or
        None."""
        if self.typing is not None:
            self._type(key)
            return None
        key = _SAME.get(key, key)
        if self.help:
            self.help = False
            return "quit" if key == "q" else None
        if key in ("q", "Q"):
            return "quit"
        if key == "redraw":
            return "redraw"
        return self._choose(key) or self._move(key, rows) or self._order(key)

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
        if key in ("escape", "backspace", "left"):
            if self.opened:
                self.opened = None
                return "refresh"
            self.position.filter = ""
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
        self.tab, self.opened = name, None
        return "refresh"

    def _interval(self, step: int) -> None:
        if step > 0:
            self.interval_s = next((s for s in INTERVALS if s > self.interval_s), INTERVALS[-1])
        else:
            lower = [s for s in INTERVALS if s < self.interval_s]
            self.interval_s = lower[-1] if lower else INTERVALS[0]

    def _move(self, key: str, rows: Sequence[Row]) -> str | None:
        tab, position = self.shown, self.position
        steps = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "page-up": -self.page,
            "page-down": self.page,
            "home": -len(rows),
            "g": -len(rows),
            "end": len(rows),
            "G": len(rows),
        }
        if key == "enter" and rows and tab.opens is not None:
            row = rows[min(position.index, len(rows) - 1)]
            self.opened = Opened(tab.opens, str(tab.key(row)))
            self.positions.pop(tab.opens, None)
            return "refresh"
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


def sortable(tab: Tab[Any]) -> list[TopColumn]:
    """The columns that rows can be sorted by."""
    return [column for column in tab.columns if column.how.sorts]


def filtered(rows: Sequence[Row], tab: Tab[Any], text: str) -> list[Row]:
    """The rows whose name matches `text`, a regular expression, or contains it if it is not a valid
    one."""
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
    """The rows in order. Unknown values come last in either direction; equal rows keep the order of
    names."""
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
