"""A table that grows: rows are written as they happen, below a head that is written once."""

from collections.abc import Callable, Sequence
from typing import Any

from pk.cli.context import Context
from pk.cli.output import Column, Listing, Row, narrow, plain, render, title

_COLOURS = {"red": "31", "yellow": "33", "green": "32", "dim": "2"}


class EventTable:
    """Writes rows in the format asked for. `widths` are the columns of a table, in order; the last column has no end."""

    def __init__(
        self,
        context: Context,
        columns: Sequence[Column],
        widths: Sequence[int],
        style: Callable[[Row], str | None],
    ) -> None:
        look = context.look
        # A list that is not finished is no JSON: each row is a document of its own.
        self._look = look._replace(format="jsonl") if look.format == "json" else look
        self._context = context
        self._columns = columns
        self._style = style
        narrowed = look.columns or look.sort or look.format == "wide"
        shown = [column for column in columns if not column.wide]
        self._fixed = list(zip(shown, [*widths, 0], strict=False)) if not narrowed else []
        if look.format == "table" and self._fixed:
            context.write(self._line([title(c).replace(" ", "-") for c in shown]))
        else:
            self._fixed = []
            context.write(render(Listing(columns, []), self._look._replace(terminal=False)))

    def _line(self, cells: Sequence[str]) -> bytes:
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, (column, width) in zip(cells, self._fixed, strict=True)
        ]
        return ("  ".join(parts).rstrip() + "\n").encode(errors="surrogateescape")

    def tell(self, rows: Sequence[dict[str, Any]]) -> None:
        """Writes what happened, as far as --where lets it through. Raises Unusable."""
        listing = narrow(Listing(self._columns, rows), self._look)
        if not listing.rows:
            return
        if not self._fixed:
            shown = render(Listing(self._columns, rows), self._look._replace(terminal=False))
            headed = self._look.format in ("table", "wide", "csv")
            self._context.write(shown.split(b"\n", 1)[1] if headed else shown)
            return
        for row in listing.rows:
            text = self._line([(c.show or plain)(row.get(c.key)) for c, _ in self._fixed])
            colour = _COLOURS.get(self._style(row) or "") if self._look.colour else None
            if colour:
                text = b"\x1b[%sm%s\x1b[0m\n" % (colour.encode(), text.rstrip(b"\n"))
            self._context.write(text)
