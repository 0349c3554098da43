r"""`\G`: shows a result with a line for each value, for rows that are too wide to read."""

from typing import Any

from pk.cli.output.formats import Column, Document, Listing, OutputOptions, narrow, plain, title
from pk.cli.runtime.context import Context
from pk.cli.terminal.text import escaped_lines


def vertical(listing: Listing, options: OutputOptions) -> bytes:
    """Show the rows below each other, each with a heading and a line for each column."""
    # Like `wide`, this shows every column, since there is space.
    listing = narrow(listing, options._replace(format="wide"))
    names = [title(column) for column in listing.columns]
    width = max(map(len, names), default=0)
    lines: list[str] = []
    for number, row in enumerate(listing.rows, 1):
        lines.append(f"── {number} ".ljust(min(options.width, 40), "─"))
        for name, column in zip(names, listing.columns, strict=True):
            lines += _entry(name.rjust(width), column, row.get(column.key))
    lines.append(f"({len(listing.rows)} row{'' if len(listing.rows) == 1 else 's'})")
    return ("\n".join(lines) + "\n").encode(errors="surrogateescape")


def _entry(name: str, column: Column, value: Any) -> list[str]:
    first, *more = escaped_lines((column.show or plain)(value)).split("\n")
    return [f"{name}  {first}", *(" " * (len(name) + 2) + line for line in more)]


class VerticalContext(Context):
    """A context that shows lists with a line for each value."""

    def show(self, listing: Listing) -> None:
        """Part of Context."""
        self.write(vertical(listing, self.output))

    def show_document(self, document: Document) -> None:
        """Part of Context."""
        self.show(document.rows)
