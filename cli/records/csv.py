"""Records as CSV (RFC 4180), written by `pk consume -f csv` and read by `pk produce -f csv`.

Null and empty differ, as in PostgreSQL's COPY: an empty field without quotes is null, `""` is an
empty string. Python's csv module does not distinguish the two, so this module splits the fields
itself.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pk.cli.records.row import RECORD_FIELDS
from pk.core.nearest import did_you_mean

_QUOTED: Final = re.compile(r'[",\r\n]')
_FIELD: Final = re.compile(rb'"([^"]*(?:""[^"]*)*)"(?=,|\Z)|([^",]*)(?=,|\Z)')
_ROW_BYTES_MAX: Final = 1 << 28
"""The longest row. It limits the memory that a quote without an end can take."""

NUMBERS: Final = ("partition", "offset", "timestamp")


def csv_line(values: Iterable[Any]) -> str:
    """Format a row. None is an empty field; an empty string is `""`."""
    return ",".join(map(_cell, values)) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = str(value)
    if text and not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


class BadCsv(ValueError):
    """The input is not CSV of records. `before` has the complete rows before the mistake."""

    def __init__(self, message: str, before: Sequence[bytes] = ()) -> None:
        super().__init__(message)
        self.before = list(before)


def cut_row(row: bytes) -> list[bytes | None]:
    """Split a row without its line end into fields; an empty field without quotes is None. Raises
    BadCsv."""
    fields: list[bytes | None] = []
    at = 0
    while True:
        found = _FIELD.match(row, at)
        if found is None:
            raise BadCsv(
                f"a quote is out of place in {row[at : at + 40].decode(errors='replace')!r}"
            )
        quoted, plain = found.groups()
        fields.append(quoted.replace(b'""', b'"') if quoted is not None else plain or None)
        at = found.end() + 1
        if at > len(row):
            return fields


class CsvRows:
    """Joins lines into rows, since a quoted field may contain line ends. The first row names the
    columns."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self._lines: list[bytes] = []
        self._size = 0
        self._open = False
        self._number = 0
        self._first = 0

    def feed(self, lines: Iterable[bytes]) -> list[bytes]:
        """Add `lines`. Returns the rows that they complete, without the row of column names. Raises
        BadCsv."""
        rows: list[bytes] = []
        for line in lines:
            self._number += 1
            if not self._lines:
                self._first = self._number
            self._lines.append(line)
            self._size += len(line)
            self._open ^= line.count(b'"') % 2 == 1
            if self._open:
                if self._size > _ROW_BYTES_MAX:
                    raise BadCsv(f"Line {self._first}: a quote is not closed.", rows)
                continue
            row = b"\n".join(self._lines).removesuffix(b"\r")
            self._lines.clear()
            self._size = 0
            if not row:
                continue
            if self.columns:
                rows.append(row)
            else:
                self._read_columns(row)
        return rows

    def _read_columns(self, row: bytes) -> None:
        try:
            names = [(name or b"").decode("utf-8-sig").strip() for name in cut_row(row)]
        except ValueError as e:
            raise BadCsv(f"Line {self._first}: {e}.") from None
        for name in names:
            if name not in RECORD_FIELDS:
                hint = did_you_mean(
                    name, RECORD_FIELDS, f"; the columns are {', '.join(RECORD_FIELDS)}."
                )
                raise BadCsv(
                    f"Line {self._first}: the first line names the columns, and {name!r} is not "
                    f"one{hint}"
                )
        if len(set(names)) < len(names):
            raise BadCsv(f"Line {self._first}: a column is named twice.")
        self.columns = names

    def end(self) -> None:
        """Raise BadCsv if the input ended inside a row."""
        if self._lines:
            raise BadCsv(f"Line {self._first}: a quote is not closed.")

    def fields(self, row: bytes) -> Mapping[str, Any]:
        """The fields of a row, like those of a jsonl line. Raises ValueError."""
        cells = cut_row(row)
        if len(cells) != len(self.columns):
            raise BadCsv(
                f"it has {len(cells)} fields, but the first line names {len(self.columns)}"
            )
        found: dict[str, Any] = {}
        for name, cell in zip(self.columns, cells, strict=True):
            text = None if cell is None else cell.decode()
            if text is None and name.endswith("_b64"):
                continue
            if text is not None and name in NUMBERS:
                found[name] = _number(name, text)
            elif text is not None and name == "headers":
                found[name] = json.loads(text)
            else:
                found[name] = text
        return found


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadCsv(f"{name} must be a whole number, not {text!r}") from None
