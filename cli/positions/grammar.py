"""The grammar of a position in a topic, for all commands.

    position   start | end | N | -N (before the end) | +N (after the start)
               | committed | committed+N | committed-N | @TIME
    range      A..B, half open; a missing side is the start, or forever; A:B too if neither
               side contains a time
    per partition   0=5,1=9,2=start..end

`Positions` has the positions as typed; `pk.cli.positions.resolve` resolves them to offsets of real
partitions. Pure: the current time and the time zone are arguments.
"""

import re
from collections.abc import Callable
from datetime import tzinfo
from enum import Enum
from typing import NamedTuple

from pk.cli.positions.times import show_time, time_ms

GRAMMAR = "start, end, N, -N, +N, committed, committed±N or @TIME"

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_PER_PARTITION = re.compile(r"([0-9]{1,10})=(.*)", re.DOTALL)
_COMMITTED = re.compile(r"committed([+-][0-9]{1,19})?")
_STARTS = frozenset(("start", "earliest", "beginning", "oldest"))
_ENDS = frozenset(("end", "latest", "newest"))
OFFSET_MAX = 2**63 - 1


class Anchor(Enum):
    """The point from which a position is counted."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    COMMITTED = "committed"
    TIME = "time"


class Position(NamedTuple):
    """A point in any partition: an anchor and the distance from it (for TIME: epoch
    milliseconds)."""

    anchor: Anchor
    value: int = 0

    def __str__(self) -> str:
        match self.anchor:
            case Anchor.OFFSET:
                return str(self.value)
            case Anchor.TIME:
                return f"@{show_time(self.value)}"
            case Anchor.START:
                return f"+{self.value}" if self.value else "start"
            case Anchor.END:
                return str(self.value) if self.value else "end"
            case Anchor.COMMITTED:
                return f"committed{self.value:+d}" if self.value else "committed"


START = Position(Anchor.START)
END = Position(Anchor.END)
COMMITTED = Position(Anchor.COMMITTED)


class Range(NamedTuple):
    """The offsets from `begin` up to but not including `end`; open if `end` is None."""

    begin: Position
    end: Position | None = None

    def __str__(self) -> str:
        return str(self.begin) if self.end is None else f"{self.begin}..{self.end}"


class Positions(NamedTuple):
    """One range for all partitions, or a range for each named partition."""

    everywhere: Range | None
    by_partition: dict[int, Range]

    def of(self, partition: int) -> Range | None:
        """The range for `partition`; None if it is not requested."""
        return self.by_partition.get(partition, self.everywhere)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return (*((self.everywhere,) if self.everywhere else ()), *self.by_partition.values())

    @property
    def bounded(self) -> bool:
        """Whether every range has an end."""
        return all(r.end is not None for r in self.ranges)

    def ended(self) -> "Positions":
        """The same positions, but a range without an end ends at the current one."""

        def end(asked: Range) -> Range:
            return asked if asked.end is not None else asked._replace(end=END)

        return Positions(
            end(self.everywhere) if self.everywhere else None,
            {p: end(asked) for p, asked in self.by_partition.items()},
        )

    def uses(self, anchor: Anchor) -> bool:
        return any(
            p is not None and p.anchor is anchor for r in self.ranges for p in (r.begin, r.end)
        )

    def __str__(self) -> str:
        if self.everywhere is not None:
            return str(self.everywhere)
        return ",".join(f"{p}={r}" for p, r in self.by_partition.items())


def everywhere(begin: Position, end: Position | None = None) -> Positions:
    """The same range in every partition."""
    return Positions(Range(begin, end), {})


def parse_position(text: str, now_ms: int, zone: tzinfo | None = None) -> Position:
    """Parse one position. Raises ValueError."""
    word = text.strip()
    lower = word.lower()
    if lower in _STARTS:
        return START
    if lower in _ENDS:
        return END
    if word.startswith("@"):
        return Position(Anchor.TIME, time_ms(word[1:], now_ms, zone))
    found = _COMMITTED.fullmatch(lower)
    if found:
        return Position(Anchor.COMMITTED, int(found[1] or 0))
    if not _NUMBER.fullmatch(word) or not -OFFSET_MAX <= int(word) <= OFFSET_MAX:
        raise ValueError(f"not a position: {text!r}; {_hint(word, now_ms, zone)}")
    if word.startswith("+"):
        return Position(Anchor.START, int(word))
    if word.startswith("-"):
        return Position(Anchor.END, int(word))
    return Position(Anchor.OFFSET, int(word))


_FORMATS = frozenset(("table", "wide", "json", "jsonl", "yaml", "csv"))


def _hint(word: str, now_ms: int, zone: tzinfo | None) -> str:
    """Suggest `@` for a time without it, and -f for a format, since -o selects the format in other
    tools; otherwise list the forms of a position."""
    if word in _FORMATS:
        return f"for a format, write -f {word}"
    if not word.isdecimal():
        try:
            time_ms(word, now_ms, zone)
        except ValueError:
            return f"it is {GRAMMAR}"
        return f"write a time as @{word}"
    return f"it is {GRAMMAR}"


def parse_range(text: str, now_ms: int, zone: tzinfo | None = None) -> Range:
    """Parse a range; a single position is a range without an end. Raises ValueError."""
    if ".." in text:
        left, _, right = text.partition("..")
    elif ":" in text and "@" not in text:
        left, _, right = text.partition(":")
    elif hint := _dotted(text, now_ms, zone):
        raise ValueError(f"not a position: {text!r}; write a range with times as {hint}")
    else:
        return Range(parse_position(text, now_ms, zone))
    if not left.strip() and not right.strip():
        raise ValueError(
            f"a range without a start and an end: {text!r}; for everything, write start..end"
        )
    begin = parse_position(left, now_ms, zone) if left.strip() else START
    end = parse_position(right, now_ms, zone) if right.strip() else None
    if end is not None and _inverted(begin, end):
        raise ValueError(f"the range {text!r} ends before it begins")
    return Range(begin, end)


def _inverted(begin: Position, end: Position) -> bool:
    """Whether the range ends before it begins in every partition, whatever its offsets are. (`5..5`
    or `start..start` are empty too, but intentionally.)"""
    if begin.anchor is end.anchor:
        return begin.value > end.value
    return begin == END or end == START


def _dotted(text: str, now_ms: int, zone: tzinfo | None) -> str | None:
    """Convert `@-1h:end` to a range with dots. None if `text` is a position, or not a range with a
    colon."""
    try:
        parse_position(text, now_ms, zone)
        return None
    except ValueError:
        pass
    for colon in re.finditer(":", text):
        sides = text[: colon.start()], text[colon.end() :]
        try:
            for side in filter(None, sides):
                parse_position(side, now_ms, zone)
        except ValueError:
            continue
        return "..".join(sides)
    return None


def _split(text: str) -> list[str]:
    """Split at the commas before a partition number. Other commas are mistakes, and stay for the
    error message."""
    return re.split(r",(?=\s*[0-9]{1,10}=)", text)


def parse_positions(text: str, now_ms: int, zone: tzinfo | None = None) -> Positions:
    """Parse the value of a position option. Raises ValueError with a sentence."""
    if not _PER_PARTITION.match(text.strip()):
        return Positions(parse_range(text, now_ms, zone), {})
    by_partition: dict[int, Range] = {}
    for entry in _split(text):
        found = _PER_PARTITION.fullmatch(entry.strip())
        assert found is not None
        partition = int(found[1])
        if partition in by_partition:
            raise ValueError(f"partition {partition} has two positions in {text!r}")
        by_partition[partition] = parse_range(found[2], now_ms, zone)
    return Positions(None, by_partition)


def single(positions: Positions, why: Callable[[], str]) -> Positions:
    """Return `positions` if they are single positions. Raises ValueError, with the sentence `why`,
    for a range."""
    if any(r.end is not None for r in positions.ranges):
        raise ValueError(why())
    return positions
