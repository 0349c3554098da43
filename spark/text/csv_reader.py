"""Parses CSV (RFC 4180) into columns of text, in whole batches.

Fields are separated by a delimiter and may be quoted; inside quotes, a quote is doubled, and
delimiters and line ends are text. An empty field without quotes is null, and `""` is an empty
string, as `pk consume -f csv` writes them. Anything else is an error with its line: a row with
another number of fields, a misplaced quote, bytes that are invalid in the encoding.

The input is lines, and a row may span several of them. The reader finds quotes, delimiters and line
ends with numpy: a delimiter or line end is outside of quotes if the number of quotes before it is
even. All fields together are one Arrow array over the bytes that remain without quotes, delimiters
and line ends.
"""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pk.spark.text.lines import without_bom

ROW_BYTES_MAX: Final = 1 << 28
"""The size limit of a row in bytes. It limits the memory that an unclosed quote can use."""

_QUOTE: Final = ord('"')
_NEWLINE: Final = ord("\n")
_RETURN: Final = ord("\r")
_EMPTY: Final = (b"", b"\r")
_WITH_STATES: Final = ("iso2022", "hz", "utf-7")
_OPEN: Final = "a quote is not closed"
_CHUNK_BYTES: Final = 1 << 20
_compute: Final[Any] = pc


class BadCsv(ValueError):
    """Text that is not valid CSV. `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Dialect:
    """The format of a CSV file."""

    delimiter: str = ","
    encoding: str = "utf-8"
    null: str | None = None
    """An unquoted text that also means null."""

    def check(self) -> None:
        """Raise ValueError for an invalid delimiter, or an encoding that is unknown or cannot be
        used."""
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise ValueError(f"the delimiter must be one ASCII character, not {self.delimiter!r}")
        try:
            name = codecs.lookup(self.encoding).name
        except LookupError:
            raise ValueError(f"unknown encoding {self.encoding!r}") from None
        # These characters must have the same bytes as in ASCII, regardless of the byte before them.
        plain = not name.startswith(_WITH_STATES) and all(
            bytes((before, ord(one))).decode(name, "replace").endswith(one)
            for one in f'",\r\n{self.delimiter}'
            for before in range(256)
        )
        if not plain:
            raise ValueError(
                f"pk cannot read CSV in {self.encoding}; convert it to UTF-8, for example with"
                " iconv"
            )


class FirstRow(NamedTuple):
    """The first row of a file."""

    fields: list[str | None]
    lines: int
    """The number of lines up to its end, including empty lines before it."""

    crlf: bool
    """Whether it ends with a carriage return and a line feed."""


def first_row(lines: Iterable[bytes], dialect: Dialect) -> FirstRow | None:
    """The first row of a file; None if the file has no row. Raises BadCsv."""
    begun: list[bytes] = []
    quotes = 0
    for number, line in enumerate(lines, 1):
        text = without_bom(line) if number == 1 else line
        if not begun and text in _EMPTY:
            continue
        begun.append(text)
        quotes += text.count(b'"')
        if quotes % 2 == 0:
            crlf = text.endswith(b"\r")
            fields = _Fields(_joined(begun), number - len(begun) + 1, dialect, crlf)
            return FirstRow(fields.texts().to_pylist(), number, crlf)
        if sum(map(len, begun)) > ROW_BYTES_MAX:
            break
    if begun:
        raise BadCsv(1, _OPEN)
    return None


class CsvReader:
    """A reader that turns lines, without their line feeds, into rows."""

    def __init__(self, dialect: Dialect, columns: int, line: int, *, crlf: bool) -> None:
        """`line` is the number of the first line; `crlf` says whether the file's first row ends
        with a carriage return and a line feed."""
        self._dialect = dialect
        self._columns = columns
        self._line = line
        self._crlf = crlf
        self._begun: list[bytes] = []
        self._size = 0
        self._open = False

    def read(self, lines: Iterable[bytes]) -> Iterator["Rows"]:
        """Yield the rows that the lines complete. Raises BadCsv."""
        whole = len(self._begun) if not self._open else 0
        for line in lines:
            if not self._open and line in _EMPTY and self._columns > 1:
                # Empty lines between rows are ignored.
                if self._begun:
                    yield self._rows(len(self._begun))
                self._line += 1
                whole = 0
                continue
            self._begun.append(line)
            self._size += len(line) + 1
            self._open ^= line.count(b'"') % 2 == 1
            if not self._open:
                whole = len(self._begun)
                if self._size >= _CHUNK_BYTES:
                    yield self._rows(whole)
                    whole = 0
            elif self._size > ROW_BYTES_MAX:
                raise BadCsv(self._line + whole, _OPEN)
        if whole:
            yield self._rows(whole)

    def end(self) -> None:
        """Raise BadCsv if the lines ended inside a row."""
        if self._begun:
            raise BadCsv(self._line, _OPEN)

    def _rows(self, count: int) -> "Rows":
        """Parse the first `count` lines, which are complete rows."""
        lines, self._begun = self._begun[:count], self._begun[count:]
        self._size = sum(map(len, self._begun)) + len(self._begun)
        fields = _Fields(_joined(lines), self._line, self._dialect, self._crlf)
        self._line += count
        fields.check_rows(self._columns)
        texts = fields.texts()
        if self._columns == 1:
            return Rows([texts], fields)
        at = np.arange(len(texts) // self._columns, dtype=np.int64) * self._columns
        columns = [texts.take(pa.array(at + column)) for column in range(self._columns)]
        return Rows(columns, fields)


class Rows:
    """Rows of a file, as columns of text."""

    def __init__(self, columns: list[pa.Array], fields: "_Fields") -> None:
        self.columns = columns
        self._fields = fields

    def line(self, row: int) -> int:
        """The number of the line in which a row begins."""
        return self._fields.line_of(row)


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"


class _Fields:
    """The fields of complete rows, one after another."""

    def __init__(self, data: bytes, line: int, dialect: Dialect, crlf: bool) -> None:
        self._crlf = crlf
        self._data = data
        self._line = line
        self._dialect = dialect
        bytes_ = self._bytes = np.frombuffer(data, np.uint8)
        quotes = self._quotes = np.flatnonzero(bytes_ == _QUOTE)
        ends = np.flatnonzero((bytes_ == ord(dialect.delimiter)) | (bytes_ == _NEWLINE))
        if len(quotes):
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        self._ends = ends
        self._row_ends = np.flatnonzero(bytes_[ends] == _NEWLINE)
        self._check_quotes()

    def line_at(self, place: int) -> int:
        """The number of the line that contains a byte."""
        return self._line + self._data.count(b"\n", 0, place)

    def _check_quotes(self) -> None:
        quotes, bytes_ = self._quotes, self._bytes
        if not len(quotes):
            return
        delimiter = ord(self._dialect.delimiter)
        opening, closing = quotes[::2], quotes[1::2]
        before = np.where(opening > 0, bytes_[np.maximum(opening - 1, 0)], _NEWLINE)
        doubled = np.zeros(len(opening), bool)
        doubled[1:] = opening[1:] == closing[: len(opening) - 1] + 1
        wrong = opening[~((before == delimiter) | (before == _NEWLINE) | doubled)]
        if not len(wrong):
            after = bytes_[closing + 1]
            ends = (after == delimiter) | (after == _NEWLINE)
            followed = np.minimum(closing + 2, len(bytes_) - 1)
            ends |= (after == _RETURN) & (bytes_[followed] == _NEWLINE)
            twice = np.zeros(len(closing), bool)
            twice[:-1] = doubled[1:]
            wrong = closing[~(ends | twice)]
        if len(wrong):
            place = int(wrong[0])
            near = self._data[max(place - 20, 0) : place + 20].decode(errors="replace")
            raise BadCsv(self.line_at(place), f"a quote is out of place in {near!r}")

    def line_of(self, row: int) -> int:
        """The number of the line in which a row begins."""
        return self.line_at(int(self._ends[self._row_ends[row - 1]]) + 1 if row else 0)

    def check_rows(self, count: int) -> None:
        """Raise BadCsv for a row with another number of fields."""
        sizes = np.diff(self._row_ends, prepend=-1)
        wrong = np.flatnonzero(sizes != count)
        if len(wrong):
            row = int(wrong[0])
            size = int(sizes[row])
            raise BadCsv(
                self.line_of(row),
                f"the row has {size} field{'s' if size > 1 else ''}, but the table has {count} "
                "columns",
            )

    def texts(self) -> pa.Array:
        """All fields as strings. Raises BadCsv."""
        bytes_, ends = self._bytes, self._ends
        kept = np.ones(len(bytes_), bool)
        kept[ends] = False
        returns = self._returns()
        kept[returns] = False
        quotes = self._quotes
        if len(quotes):
            # A doubled quote means one quote: the first of the two is removed, and the second is
            # kept.
            kept[quotes] = False
            opening, closing = quotes[::2], quotes[1::2]
            kept[opening[1:][opening[1:] == closing[: len(opening) - 1] + 1]] = True
        sums = np.cumsum(kept)
        offsets = np.zeros(len(ends) + 1, np.int32)
        offsets[1:] = sums[ends]
        starts = np.empty(len(ends), np.int64)
        starts[:1] = 0
        starts[1:] = ends[:-1] + 1
        written = ends - starts
        written[np.searchsorted(ends, returns + 1)] -= 1
        null = written == 0
        array = pa.Array.from_buffers(
            pa.binary(),
            len(ends),
            [
                pa.array(~null).buffers()[1],
                pa.py_buffer(offsets),
                pa.py_buffer(np.ascontiguousarray(bytes_[kept])),
            ],
        )
        if self._dialect.null:
            given = pa.scalar(self._dialect.null.encode(self._dialect.encoding), pa.binary())
            plain = pa.array(bytes_[starts] != _QUOTE)
            none = _compute.and_kleene(_compute.equal(array, given), plain)
            array = _compute.if_else(_compute.fill_null(none, False), None, array)
        return self._decoded(array, starts)

    def _returns(self) -> Any:
        """The carriage returns that belong to line ends. Raises BadCsv if there are any and the
        first row ends without one, since they could be text."""
        row_ends = self._ends[self._row_ends]
        before = np.maximum(row_ends - 1, 0)
        found = before[(self._bytes[before] == _RETURN) & (row_ends > 0)]
        if len(found) and not self._crlf:
            raise BadCsv(
                self.line_at(int(found[0])),
                "the row ends with a carriage return, but the file's first row does not; text "
                "with a carriage return must be in quotes",
            )
        return found

    def _decoded(self, array: pa.Array, starts: Any) -> pa.Array:
        encoding = self._dialect.encoding
        if codecs.lookup(encoding).name in ("utf-8", "ascii"):
            try:
                found = _compute.cast(array, pa.string())
                if codecs.lookup(encoding).name == "utf-8" or self._data.isascii():
                    return found
            except pa.ArrowInvalid:
                pass
        texts: list[str | None] = []
        for number, value in enumerate(array.to_pylist()):
            try:
                texts.append(None if value is None else value.decode(encoding))
            except UnicodeDecodeError as e:
                reason = f"a field is not {encoding}: byte 0x{e.object[e.start]:02x}"
                raise BadCsv(self.line_at(int(starts[number])), reason) from None
        return pa.array(texts, pa.string())
