"""The output formats of every command.

A command makes a `Listing` (columns and rows) or a `Document` (the data for JSON, and sections for
people); this module applies the requested columns, rows and format. The keys in JSON are those of
all columns, including wide ones, in snake_case. Nothing in this module depends on the destination
of the bytes.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, TypeGuard, cast

from pk.cli.exits import Unusable
from pk.cli.options.known_values import FORMATS
from pk.cli.terminal.text import escaped, escaped_lines
from pk.core.nearest import did_you_mean

Row = Mapping[str, Any]


class Column(NamedTuple):
    """A column: its key in JSON, how its value is shown, and whether only `wide` shows it."""

    key: str
    show: Callable[[Any], str] | None = None
    wide: bool = False
    right: bool = False
    title: str | None = None
    on_terminal: "Callable[[Row], str] | None" = None
    """Makes the text for a terminal from the whole row, if the value alone is not enough."""

    whole: bool = False
    """Whether other columns are folded first, since this one has names that people copy from the
    screen."""

    word: bool = False
    """Whether the values are of a fixed set, which --where compares in any case."""


class Listing(NamedTuple):
    """A list. `style` returns a rich style for a row that should stand out."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    style: Callable[[Row], str | None] | None = None


class Section(NamedTuple):
    """A part of a description for people."""

    title: str
    body: Listing


class Document(NamedTuple):
    """A description of several things: `data` is for JSON; `rows` is what --where, --columns …
    select from."""

    data: Sequence[Mapping[str, Any]]
    sections: Sequence[Section]
    rows: Listing


class OutputOptions(NamedTuple):
    """The requested output, and the kind of stream that gets it."""

    format: str = "table"
    columns: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    where: str | None = None
    limit: int | None = None
    terminal: bool = False
    color: bool = False
    width: int = 80

    @property
    def narrows(self) -> bool:
        return bool(self.columns or self.sort or self.where or self.limit)


def check_format(name: str, formats: Sequence[str] = FORMATS) -> str:
    """Check that `name` is a format or a template, and return it. Raises Unusable."""
    if name in formats or "{" in name:
        return name.removeprefix("template=") if "{" in name else name
    hint = did_you_mean(name, formats)
    raise Unusable(
        f"-f must be one of {', '.join(formats)}, or a template with "
        f"{'%v or ' * ('value' in formats)}{{FIELD}}, not {name!r}{hint}"
    )


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def plain(value: Any) -> str:
    """Show a value to people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _is_list(value):
        return ",".join(plain(v) for v in value) or "-"
    if _is_object(value):
        return ",".join(f"{k}={plain(v)}" for k, v in value.items()) or "-"
    return str(value)


def words_in(columns: Sequence[Column]) -> frozenset[str]:
    """The keys of the columns whose values are of a fixed set."""
    return frozenset(column.key for column in columns if column.word)


def narrow(listing: Listing, options: OutputOptions) -> Listing:
    """The listing with only the requested rows and columns, in the requested order. Raises
    Unusable."""
    keys = [column.key for column in listing.columns]
    rows = list(listing.rows)
    if options.where is not None:
        from pk.cli.output.where import WhereError, parse_where

        try:
            holds = parse_where(options.where, keys, words_in(listing.columns))
        except WhereError as e:
            raise Unusable(f"{e}.") from None
        rows = [row for row in rows if holds(row)]
    for name in reversed(options.sort):
        key = _known(name.lstrip("-+"), keys, "--sort")
        rows.sort(key=lambda row: _order(row.get(key)), reverse=name.startswith("-"))
    if options.limit is not None:
        rows = rows[: options.limit]
    return listing._replace(columns=_columns(listing, options), rows=rows)


def _columns(listing: Listing, options: OutputOptions) -> Sequence[Column]:
    by_key = {column.key: column for column in listing.columns}
    if options.columns:
        without = {
            _known(name[1:], by_key, "--columns")
            for name in options.columns
            if name.startswith("-")
        }
        only = [
            _known(name, by_key, "--columns")
            for name in options.columns
            if not name.startswith("-")
        ]
        left = [by_key[key] for key in (only or by_key) if key not in without]
        if not left:
            raise Unusable(f"--columns {','.join(options.columns)} leaves no column to show.")
        return left
    if options.format == "table":
        return [column for column in listing.columns if not column.wide]
    return listing.columns


def _known(name: str, keys: Iterable[str], option: str) -> str:
    keys = list(keys)
    key = name.strip().lower().replace("-", "_")
    if key in keys:
        return key
    hint = did_you_mean(key, keys, f"; the columns are {', '.join(keys)}.")
    raise Unusable(f"{option}: unknown column {name!r}{hint}")


def _order(value: Any) -> tuple[int, Any]:
    """A sort key for any value: missing values come first, then numbers, then texts."""
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float)):
        return (1, value)
    return (2, plain(value))


def render(listing: Listing, options: OutputOptions) -> bytes:
    """The listing in the requested format."""
    listing = narrow(listing, options)
    if options.format in ("table", "wide"):
        return _table(listing, options).encode(errors="surrogateescape")
    keys = [column.key for column in listing.columns]
    if options.format in ("csv", "name") or "{" in options.format:
        return _text(listing, keys, options).encode(errors="surrogateescape")
    return dump([{key: row.get(key) for key in keys} for row in listing.rows], options.format)


def _text(listing: Listing, keys: list[str], options: OutputOptions) -> str:
    if options.format == "csv":
        return _csv(keys, listing.rows)
    if options.format == "name":
        first = keys[0]
        return "".join(f"{plain(row.get(first))}\n" for row in listing.rows)
    fill = template(options.format, keys)
    return "".join(fill(row) for row in listing.rows)


def render_document(document: Document, options: OutputOptions) -> bytes:
    """The description in the requested format, or only its rows if a filter is given."""
    if options.narrows or options.format in ("csv", "name") or "{" in options.format:
        return render(document.rows, options)
    if options.format not in ("table", "wide"):
        return dump(document.data, options.format)
    parts: list[str] = []
    for section in document.sections:
        title = f"{escaped_lines(section.title)}\n" if section.title else ""
        parts.append(title + _table(narrow(section.body, options), options))
    return "\n".join(parts).encode(errors="surrogateescape")


def dump(rows: Sequence[Any], form: str) -> bytes:
    """Encode `rows` as json, jsonl, yaml or cbor."""
    if form == "json":
        return (json.dumps(rows, ensure_ascii=False, indent=2, default=_odd) + "\n").encode()
    if form == "jsonl":
        return "".join(
            json.dumps(row, ensure_ascii=False, default=_odd) + "\n" for row in rows
        ).encode()
    if form == "yaml":
        return (yaml(list(rows)) + "\n").encode()
    from pk.core import cbor

    return cbor.dumps_plain(list(rows))


def _odd(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(cast("AbstractSet[Any]", value))
    return list(value) if _is_list(value) else str(value)


def cells_of(listing: Listing, *, terminal: bool = False) -> list[list[str]]:
    """The texts of the cells of a table, row by row."""
    return [
        [
            escaped_lines(column.on_terminal(row))
            if terminal and column.on_terminal
            else escaped_lines(column.show(row.get(column.key)))
            if column.show
            else escaped(plain(row.get(column.key)))
            for column in listing.columns
        ]
        for row in listing.rows
    ]


def title(column: Column) -> str:
    return column.title or column.key.replace("_", " ").upper()


def _table(listing: Listing, options: OutputOptions) -> str:
    if options.terminal:
        return terminal_table(listing, options)
    return _plain_table(listing)


def terminal_table(
    listing: Listing, options: OutputOptions, highlighted: Callable[[int, int], bool] | None = None
) -> str:
    """The table for a terminal. `highlighted` says whether the cell in a row and a column is
    highlighted."""
    from pk.cli.terminal.table import laid_out

    style, rows = listing.style, listing.rows
    return laid_out(
        [title(column) for column in listing.columns],
        [column.right for column in listing.columns],
        [column.right or column.whole for column in listing.columns],
        cells_of(listing, terminal=True),
        options.width,
        codes=options.color or highlighted is not None,
        color=options.color,
        style=None if style is None else lambda i: style(rows[i]),
        highlighted=highlighted,
    )


def _plain_table(listing: Listing) -> str:
    """Columns that are aligned with spaces, which scripts can easily cut."""
    cells = cells_of(listing)
    heads = [title(column).replace(" ", "-") for column in listing.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)] if heads else []
    lines: list[str] = []
    for line in (heads, *cells):
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, listing.columns, strict=True)
        ]
        lines.append("  ".join(parts).rstrip() + "\n")
    return "".join(lines)


def _csv(keys: Sequence[str], rows: Iterable[Row]) -> str:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(keys)
    for row in rows:
        writer.writerow(["" if row.get(k) is None else _csv_cell(row.get(k)) for k in keys])
    return buffer.getvalue()


def _csv_cell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_object(value) or (
        _is_list(value) and any(_is_object(item) or _is_list(item) for item in value)
    ):
        return json.dumps(value, ensure_ascii=False)
    return ",".join(map(str, value)) if _is_list(value) else str(value)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "\\": "\\"}


def unescape(text: str) -> str:
    r"""Replace `\n`, `\t`, `\r`, `\0`, `\xNN` and `\\` with the characters that they denote; from
    `\x80` on, with the raw byte, which `errors="surrogateescape"` encodes."""
    out: list[str] = []
    i = 0
    while i < len(text):
        if text[i] != "\\" or i + 1 == len(text):
            out.append(text[i])
            i += 1
        elif text[i + 1] == "x" and len(text) >= i + 4:
            try:
                out.append(_character(int(text[i + 2 : i + 4], 16)))
            except ValueError:
                raise Unusable(f"not an escape: {text[i : i + 4]!r}; write \\xNN") from None
            i += 4
        else:
            out.append(_ESCAPES.get(text[i + 1], text[i : i + 2]))
            i += 2
    return "".join(out)


def _character(number: int) -> str:
    return chr(number) if number < 0x80 else bytes((number,)).decode("ascii", "surrogateescape")


def template(text: str, keys: Iterable[str] | None) -> Callable[[Row], str]:
    """A function that fills `{field}`, `{a.b}` and `{field:>10}` from a row. Raises Unusable."""
    import string

    from pk.cli.output.where import MISSING, value_at

    known = None if keys is None else list(keys)
    parts: list[tuple[str, list[str] | None, str]] = []
    try:
        pieces = list(string.Formatter().parse(unescape(text)))
    except ValueError as e:
        raise Unusable(
            f"-f: the template cannot be read ({e}); a brace itself is {{{{ or }}}}."
        ) from None
    for literal, field, spec, _ in pieces:
        path = field.split(".") if field is not None else None
        if path is not None and known is not None:
            path[0] = _known(path[0], known, "-f")
        if re.search(r"\d{5}", spec or ""):
            raise Unusable(f"-f: {{{field}:{spec}}}: a width can have at most four digits.")
        parts.append((literal, path, spec or ""))

    def fill(row: Row) -> str:
        out: list[str] = []
        for literal, path, spec in parts:
            out.append(literal)
            if path is None:
                continue
            value = value_at(row, path)
            value = None if value is MISSING else value
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            shown = value if is_number else plain(value)
            try:
                out.append(format(shown, spec))
            except ValueError as e:
                if value is not None:
                    raise Unusable(f"-f: {{{'.'.join(path)}:{spec}}}: {e}.") from None
                out.append(format(shown, _room(spec)))
        return "".join(out)

    return fill


def _room(spec: str) -> str:
    """The alignment and width in a format, for the dash that replaces an unknown number."""
    found = re.match(r"((?:.?[<>^])?)0?(\d*)", spec)
    return f"{found[1] or '>'}{found[2]}" if found else ""


def yaml(value: Any, depth: int = 0) -> str:
    """Encode `value` as YAML in block style, with quotes around texts that YAML would read as
    another type."""
    pad = "  " * depth
    lines: list[str] = []
    if _is_object(value):
        if not value:
            return "{}"
        for k, v in value.items():
            nested = (_is_object(v) or _is_list(v)) and v
            shown = yaml(v, depth + 1)
            lines.append(
                f"{pad}{_scalar(k)}:\n{shown}" if nested else f"{pad}{_scalar(k)}: {shown}"
            )
        return "\n".join(lines)
    if _is_list(value):
        if not value:
            return "[]"
        for item in value:
            shown = yaml(item, depth + 1)
            lines.append(f"{pad}- {shown.lstrip(' ')}" if shown else f"{pad}-")
        return "\n".join(lines)
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    text = value if isinstance(value, str) else str(value)

    if (
        re.fullmatch(r"[A-Za-z_/][\w ./@+-]*", text)
        and not text.endswith(" ")
        and text.lower()
        not in (
            "true",
            "false",
            "null",
            "yes",
            "no",
            "on",
            "off",
            "y",
            "n",
        )
    ):
        return text
    return json.dumps(text, ensure_ascii=False)
