"""A table that grows: rows are written as events occur, below a heading that is written once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pk.cli.output.formats import Column, Listing, Row, narrow, render
from pk.cli.runtime.context import Context
from pk.cli.terminal.styles import styled
from pk.cli.terminal.table import GAP, pad
from pk.cli.terminal.text import cut, escaped


class Cell(NamedTuple):
    """A cell of a line: its title, its width (0: unlimited, for the last cell) and its text."""

    head: str
    width: int
    show: Callable[[Row], str]
    right: bool = False
    cut: bool = True
    """Whether a wider text is cut. If it is not, it moves the cells after it."""


class EventTable:
    """Writes rows in the requested format: as lines of `cells` or, in other formats, with
    `columns`."""

    def __init__(
        self,
        context: Context,
        columns: Sequence[Column],
        cells: Sequence[Cell],
        style: Callable[[Row], str | None],
    ) -> None:
        options = context.output
        # An unfinished list is not JSON, so each row is a document of its own.
        self._options = options._replace(format="jsonl") if options.format == "json" else options
        self._context = context
        self._columns = columns
        self._style = style
        plain = options.format == "table" and not options.columns and not options.sort
        self._cells = tuple(cells) if plain else ()
        self._headed = options.format in ("table", "wide", "csv")
        if self._cells:
            head = self._line([cell.head for cell in self._cells])
            context.write(f"{head}\n".encode())
            return
        # Refuses wrong options immediately. A format without a heading makes an empty list of it,
        # which must not be written before others.
        empty = render(Listing(columns, []), self._options._replace(terminal=False))
        if self._headed:
            context.write(empty)

    def _line(self, texts: Sequence[str]) -> str:
        parts: list[str] = []
        for text, cell in zip(map(escaped, texts), self._cells, strict=True):
            if cell.cut and cell.width:
                text = cut(text, cell.width)
            parts.append(pad(text, cell.width, cell.right))
        return GAP.join(parts).rstrip()

    def add(self, rows: Sequence[Row]) -> None:
        """Write the rows that match --where. Raises Unusable."""
        listing = narrow(Listing(self._columns, rows), self._options)
        if not listing.rows:
            return
        if not self._cells:
            shown = render(Listing(self._columns, rows), self._options._replace(terminal=False))
            self._context.write(shown.split(b"\n", 1)[1] if self._headed else shown)
            return
        for row in listing.rows:
            text = self._line([cell.show(row) for cell in self._cells])
            if self._options.color:
                text = styled(text, self._style(row))
            self._context.write(f"{text}\n".encode(errors="surrogateescape"))
