"""What the keys of `pk top` do: the tab, the row, the filter, the order. Pure; the keys are those of k9s and htop.

The row that is selected is kept by its name, so that it stays selected when the order changes, and by its place once it is
gone. `press` answers what is to be done beyond drawing anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from pk.cli.output.formats import Listing, OutputOptions, Row, narrow, plain
from pk.cli.top.tables import BY_NAME, TABS, Tab, TopColumn, told_columns

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

HELP = (
    ("1 … 5, tab, ← →", "cluster, topics, groups, ISR, reassignments"),
    ("↑ ↓, j k", "another row; page up and down, g and G for the ends"),
    ("enter", "look into a topic or a group; esc comes back"),
    ("/, f4", "only rows whose name holds this (a pattern); esc forgets it"),
    ("s, S, < >, f6", "sort by the next column, or the one before"),
    ("r", "the other way round"),
    ("i", "internal topics too, or not"),
    ("p, space", "pause, go on"),
    ("+ −", "look more often, less often"),
    ("ctrl-l", "draw anew"),
    ("?, h, f1", "this"),
    ("q, f10, ctrl-c", "end"),
)
_SAME = {"f1": "?", "f3": "/", "f4": "/", "f6": "s", "f10": "q"}
"""The function keys that people know from htop."""


@dataclass
class TablePosition:
    """Where one is in a table."""

    sort: str
    reverse: bool
    """Whether the largest come first."""

    filter: str = ""
    selected: Any = None
    index: int = 0
    top: int = 0


class Opened(NamedTuple):
    """What is looked into: the tab and the topic or group."""

    tab: str
    subject: str


def first_position(tab: Tab) -> TablePosition:
    """How a tab begins."""
    column = next(c for c in tab.columns if c.key == tab.sort)
    return TablePosition(tab.sort, column.falling)


@dataclass
class Screen:
    """What a person has chosen to see."""

    tab: str = "cluster"
    interval_s: float = 2.0
    paused: bool = False
    help: bool = False
    internal: bool = False
    typing: str | None = None
    """The filter as it is being typed; None while none is."""

    opened: Opened | None = None
    positions: dict[str, TablePosition] = field(default_factory=dict[str, TablePosition])
    page: int = 10
    """Rows that fit: as the view last had it."""

    drawn: Sequence[str] = ()
    """The columns that had room: as the view last had it."""

    asked: tuple[str, OutputOptions] | None = None
    """The tab that --where, --columns, --sort and --limit were given for, and what they say."""

    @property
    def shown(self) -> Tab:
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
        """The filter that holds: what is being typed counts already."""
        return self.position.filter if self.typing is None else self.typing

    def narrow_to(self, options: OutputOptions) -> None:
        """Shows of the tab it begins with only what the options of a list ask for. Raises Unusable."""
        if not options.narrows:
            return
        tab = self.shown
        narrow(Listing(told_columns(tab), []), options)  # refuses what is no column
        self.asked = (tab.name, options)
        if options.sort:
            name = options.sort[0].lstrip("-+").lower().replace("-", "_")
            self.position.sort = "to_zero" if name in ("zero_s", "trend") else name
            self.position.reverse = options.sort[0].startswith("-")

    def columns(self) -> Sequence[TopColumn]:
        """The columns of the table: those asked for, else all."""
        tab = self.shown
        if self.asked is None or self.asked[0] != tab.name or not self.asked[1].columns:
            return [column for column in tab.columns if not column.only_told]
        told = narrow(Listing(told_columns(tab), []), self.asked[1]).columns
        keys = dict.fromkeys(
            "to_zero" if c.key in ("zero_s", "trend") and "to_zero" in _keys(tab) else c.key
            for c in told
        )
        return [next(c for c in tab.columns if c.key == key) for key in keys]

    def arrange(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that the filter leaves, in order, with the selected row found again."""
        tab, position = self.shown, self.position
        limit = None
        if self.asked is not None and self.asked[0] == tab.name:
            options = self.asked[1]._replace(columns=(), sort=(), limit=None)
            rows = narrow(Listing(told_columns(tab), rows), options).rows
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
        """The rows that are to be seen where there is room for `room`."""
        position = self.position
        self.page = max(room, 1)
        if position.index < position.top:
            position.top = position.index
        elif position.index >= position.top + room:
            position.top = position.index - room + 1
        position.top = max(min(position.top, len(rows) - room), 0)
        return rows[position.top : position.top + room]

    def press(self, key: str, rows: Sequence[Row]) -> str | None:
        """Does what a key is for. Answers `quit`, `look` where the cluster is to be asked anew, `redraw`, or nothing."""
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
                return "look"
            self.position.filter = ""
        elif key in ("?", "h"):
            self.help = True
        elif key in ("p", " "):
            self.paused = not self.paused
            return None if self.paused else "look"
        elif key in ("+", "=", "-", "_"):
            self._interval(-1 if key in "+=" else 1)
            return "look"
        elif key == "i":
            self.internal = not self.internal
        elif key == "/":
            self.typing = self.position.filter
        return None

    def _go(self, name: str) -> str:
        self.tab, self.opened = name, None
        return "look"

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
            return "look"
        if key not in steps or not rows:
            return None
        if position.selected is not None or key not in ("down", "j"):
            position.index = min(max(position.index + steps[key], 0), len(rows) - 1)
        position.selected = tab.key(rows[position.index])
        return None

    def _order(self, key: str) -> str | None:
        tab, position = self.shown, self.position
        keys = [c.key for c in sortable(tab) if not self.drawn or c.key in self.drawn]
        if key in ("s", ">", "S", "<"):
            step = 1 if key in ("s", ">") else -1
            at = keys.index(position.sort) if position.sort in keys else 0
            position.sort = keys[(at + step) % len(keys)]
            position.reverse = next(c.falling for c in tab.columns if c.key == position.sort)
        elif key in ("r", "R"):
            position.reverse = not position.reverse
        else:
            return None
        position.index = position.top = 0
        position.selected = None
        return None


def _keys(tab: Tab) -> set[str]:
    return {column.key for column in tab.columns}


def sortable(tab: Tab) -> list[TopColumn]:
    """The columns that rows can be sorted by."""
    return [column for column in tab.columns if column.key not in ("recent", "bar")]


def filtered(rows: Sequence[Row], tab: Tab, text: str) -> list[Row]:
    """The rows whose name holds `text`, a regular expression, or that text itself where it is none."""
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
    """The rows in order; what is not known comes last either way, and rows that are even stay in the order of names."""
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
