"""Tables for a terminal: columns fitted to its width, long cells folded, rows in color.

Lists may have many thousands of rows, mostly of short ASCII words: for those, the only cost is
padding. The width of a cell is computed only if it has other characters, and a cell is folded only
if it does not fit.
"""

from collections.abc import Callable, Sequence
from functools import partial

from pk.cli.terminal.styles import codes_of, with_codes
from pk.cli.terminal.text import folded, width_of

GAP = "  "
_NARROWEST = 8
_REVERSE = codes_of("reverse")
_RULE = 40
"""The length of the line between two rows in the upright layout."""
_FEW = 20
"""In a column with this many cells, one cell may be folded so that the others are not."""

_SHORT_HEADS = {"PARTITION": "PART", "PARTITIONS": "PARTS"}


def short_head(head: str) -> str:
    """The heading to use if a table is too wide for the terminal."""
    return _SHORT_HEADS.get(head, head)


def fitting_widths(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Column widths that fit `room`, including the gaps: the widest columns shrink first, each down
    to its `least`, so that a long name is folded and not the numbers beside it. The result may
    still be too wide."""
    found = list(widths)
    excess = room_of(found) - room
    while excess > 0:
        able = [k for k, width in enumerate(found) if width > least[k]]
        if not able:
            break
        widest = max(found[k] for k in able)
        top = [k for k in able if found[k] == widest]
        next_below = max((found[k] for k in able if found[k] < widest), default=0)
        step = min(widest - max(next_below, max(least[k] for k in top)), -(-excess // len(top)))
        for k in top:
            cut = min(max(step, 1), found[k] - least[k], excess)
            found[k] -= cut
            excess -= cut
    return found


class _Cells:
    """The texts of a table, and the width of each column."""

    def __init__(
        self,
        heads: Sequence[str],
        right: Sequence[bool],
        whole: Sequence[bool],
        rows: Sequence[Sequence[str]],
        room: int,
    ) -> None:
        self.heads, self.right, self.whole, self.rows = heads, right, whole, rows
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.heads)
        # Cells that are not ASCII or have several lines are laid out singly; nearly all columns
        # have none.
        self.simple = [
            "".join(cells).isascii() and not any("\n" in c for c in cells) for cells in columns
        ]
        self._of_cells = [
            max(map(len, cells) if simple else map(_widest_line, cells), default=0)
            for cells, simple in zip(columns, self.simple, strict=True)
        ]
        if room_of(self._widest()) > room:
            self.heads = list(map(short_head, heads))
        self.widths = self._fitted(room)
        self.fits = all(self.simple) and all(map(int.__ge__, self.widths, self._of_cells))
        """Whether each row is a single line."""

    def _widest(self) -> list[int]:
        """The width of each column if nothing is folded."""
        return list(map(max, self._of_cells, map(width_of, self.heads)))

    def _fitted(self, room: int) -> list[int]:
        """Fold first the few cells that are much longer than the others of their column; then
        names; then headings, between words. The result may still be too wide."""
        widest = self._widest()
        if room_of(widest) <= room or not self.rows:
            return widest
        usual = [
            wide if whole else max(self._usual(column), width_of(head))
            for column, (wide, whole, head) in enumerate(
                zip(widest, self.whole, self.heads, strict=True)
            )
        ]
        found = fitting_widths(widest, usual, room)
        if room_of(found) <= room:
            return found
        for head_of in (width_of, _longest_word):
            least = [
                max(cells, head_of(head)) if whole else min(wide, max(_NARROWEST, head_of(head)))
                for cells, wide, whole, head in zip(
                    self._of_cells, widest, self.whole, self.heads, strict=True
                )
            ]
            found = fitting_widths(widest, least, room)
            if room_of(found) <= room:
                return found
        return found

    def _usual(self, column: int) -> int:
        """The width that nearly all cells of a column need."""
        width = len if self.simple[column] else _widest_line
        return sorted(width(row[column]) for row in self.rows)[-1 - len(self.rows) // _FEW]

    def lines_of(self, cells: Sequence[str]) -> list[list[str]]:
        """The lines of a row, each as its cells, padded."""
        parts = [
            [cell] if simple and len(cell) <= width else folded(cell, width)
            for cell, width, simple in zip(cells, self.widths, self.simple, strict=True)
        ]
        height = max(map(len, parts))
        return [
            self.padded([part[i] if i < len(part) else "" for part in parts]) for i in range(height)
        ]

    def padded(self, cells: Sequence[str]) -> list[str]:
        return list(map(pad, cells, self.widths, self.right))

    def head_lines(self) -> list[list[str]]:
        """The lines of the heading; short titles are on the last line."""
        parts = [folded(head, width) for head, width in zip(self.heads, self.widths, strict=True)]
        height = max(map(len, parts), default=1)
        parts = [[""] * (height - len(part)) + part for part in parts]
        return [self.padded([part[i] for part in parts]) for i in range(height)]

    def one_line(self) -> str:
        """The `%` format for a row, if each row is one line."""
        signs = ("" if right else "-" for right in self.right)
        return GAP.join(f"%{s}{width}s" for s, width in zip(signs, self.widths, strict=True))


def room_of(widths: Sequence[int]) -> int:
    """The width of a line with cells of these widths."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _longest_word(text: str) -> int:
    return max(map(width_of, text.split()), default=0)


def _widest_line(cell: str) -> int:
    return max(map(width_of, cell.split("\n")))


def pad(text: str, width: int, right: bool) -> str:
    """A cell, padded with spaces to its width in columns of a terminal."""
    if not text.isascii():
        width -= width_of(text) - len(text)
    return text.rjust(width) if right else text.ljust(width)


def _line(parts: Sequence[str], codes: str, highlighted: Callable[[int], bool] | None) -> str:
    if highlighted is None:
        return with_codes(GAP.join(parts).rstrip(), codes)
    bright = f"{codes};{_REVERSE}" if codes else _REVERSE
    while parts and not highlighted(len(parts) - 1) and not parts[-1].strip():
        parts = parts[:-1]
    last = len(parts) - 1
    return GAP.join(
        with_codes(part, bright)
        if highlighted(k)
        else with_codes(part.rstrip() if k == last else part, codes)
        for k, part in enumerate(parts)
    )


def laid_out(
    heads: Sequence[str],
    right: Sequence[bool],
    whole: Sequence[bool],
    rows: Sequence[Sequence[str]],
    room: int,
    *,
    codes: bool = False,
    color: bool = False,
    style: Callable[[int], str | None] | None = None,
    highlighted: Callable[[int, int], bool] | None = None,
) -> str:
    r"""A table for a terminal with `room` columns, each line with its end. `right` are the
    right-aligned columns, `whole` those that are never folded.

    If not even the numbers fit, each row is shown upright, with a line for each column, as with
    `\G` in the shell. If `codes`, the heading is bold and rows have their `style` (`bold yellow`),
    without colors unless `color`; `highlighted` says whether the cell in a row and a column is
    highlighted.
    """
    cells = _Cells(heads, right, whole, rows, room)
    own_codes = [
        codes_of(style(i), color=color) if codes and style is not None else ""
        for i in range(len(rows))
    ]
    if rows and room_of(cells.widths) > room:
        return _upright(heads, right, rows, room, own_codes, highlighted)
    bold = codes_of("bold") if codes else ""
    lines = [_line(parts, bold, None) for parts in cells.head_lines()]
    lines.append("─" * max(room_of(cells.widths), 0))
    form = cells.one_line()
    for i, row in enumerate(rows):
        own = own_codes[i]
        if cells.fits and highlighted is None:
            lines.append(with_codes((form % tuple(row)).rstrip(), own))
            continue
        for number, parts in enumerate(cells.lines_of(row)):
            bright = (
                None
                if highlighted is None
                else partial(_is_highlighted, highlighted, i, parts if number else None)
            )
            lines.append(_line(parts, own, bright))
    return "\n".join(lines) + "\n"


def _upright(
    heads: Sequence[str],
    right: Sequence[bool],
    rows: Sequence[Sequence[str]],
    room: int,
    codes: Sequence[str],
    highlighted: Callable[[int, int], bool] | None,
) -> str:
    width = max(map(width_of, heads))
    blank, left = " " * width, max(room - width - len(GAP), _NARROWEST)
    lines: list[str] = []
    for i, (row, own) in enumerate(zip(rows, codes, strict=True)):
        lines.append(f"── {i + 1} ".ljust(min(room, _RULE), "─"))
        for k, (head, cell) in enumerate(zip(heads, row, strict=True)):
            bright = highlighted is not None and highlighted(i, k)
            name = pad(head, width, right=True)
            for part in [cell] if right[k] else folded(cell, left):
                shown = with_codes(part, _REVERSE) if bright else part
                lines.append(with_codes(f"{name}{GAP}", own) + with_codes(shown, own))
                name = blank
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _is_highlighted(
    highlighted: Callable[[int, int], bool], row: int, parts: Sequence[str] | None, column: int
) -> bool:
    """Whether a cell is highlighted. If the cell is folded, only its own lines are (`parts`, from
    the second on)."""
    return highlighted(row, column) and (parts is None or bool(parts[column].strip()))
