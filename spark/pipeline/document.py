"""TOML with the position of each key and value, so that every error can name its line and column.

tomlkit parses the text and reports the position of a syntax error, but it does not keep the
positions in valid TOML. So the text is scanned a second time, only for positions. The scan assumes
valid TOML and checks nothing.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError

Path = tuple[str | int, ...]
"""The path to a value: keys, and indexes of arrays."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN: Final = re.compile(r"[^,\]}#\n]*")
_SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in the file; both numbers begin at 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem, and its position."""

    position: Position
    message: str
    passing: bool = False
    """Whether the problem may go away without a change: something that the file names could not be
    reached."""


@dataclass(slots=True)
class Document:
    """The values of a file, and their positions."""

    text: str
    values: dict[str, Any]
    keys: dict[Path, int] = field(default_factory=dict[Path, int])
    """The start of each value's key, as an index into `text`; for a table, its header."""

    contents: dict[Path, int] = field(default_factory=dict[Path, int])
    """The start of each value, as an index into `text`; for a string, its first character."""

    def at(self, path: Path) -> Position:
        """The position of a value's key, or of the nearest table that contains it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.position(self.keys.get(path, 0))

    def inside(self, path: Path, index: int) -> Position:
        """The position of a character inside a string. Escapes before it shift the result by their
        length."""
        return self.position(self.contents.get(path, self.keys.get(path, 0)) + index)

    def position(self, index: int) -> Position:
        """The line and column of an index into the text."""
        before = self.text[:index]
        return Position(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


class NotToml(Exception):
    """The text is not valid TOML; `problem` has the position."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def read_document(text: str) -> Document:
    """Parse TOML. Raises NotToml."""
    text = text.replace("\r\n", "\n")
    try:
        values = tomlkit.parse(text).unwrap()
    except ParseError as e:
        message = re.sub(r" at line \d+ col \d+$", "", str(e))
        raise NotToml(Problem(Position(e.line, e.col + 1), message)) from None
    except (TOMLKitError, ValueError) as e:
        raise NotToml(Problem(Position(1, 1), str(e))) from None
    document = Document(text, values)
    _Scan(document).run()
    return document


class _Scan:
    """One pass over the text, which records the positions."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.text = document.text
        self.index = 0
        self.counts: dict[Path, int] = {}
        """The number of tables in each array of tables so far."""

    def run(self) -> None:
        table: Path = ()
        while self._skip() < len(self.text):
            start = self.index
            if self.text.startswith("[[", start):
                self.index += 2
                names = self._names()
                array = (*self._resolved(names[:-1]), names[-1])
                number = self.counts.get(array, 0)
                self.counts[array] = number + 1
                table = (*array, number)
                self.document.keys.setdefault(array, start)
                self._end_line()
            elif self.text[start] == "[":
                self.index += 1
                table = self._resolved(self._names())
                self._end_line()
            else:
                self._pair(table)
                continue
            self.document.keys[table] = start

    def _resolved(self, names: list[str]) -> Path:
        """The path of a header: the name of an array of tables means its last table."""
        path: Path = ()
        for name in names:
            path = (*path, name)
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
        return path

    def _skip(self) -> int:
        match = _SPACE.match(self.text, self.index)
        assert match is not None
        self.index = match.end()
        return self.index

    def _end_line(self) -> None:
        end = self.text.find("\n", self.index)
        self.index = len(self.text) if end < 0 else end

    def _names(self) -> list[str]:
        """The names of a dotted key."""
        names: list[str] = []
        while True:
            self._skip()
            if self.text[self.index] in "\"'":
                begin, end = self._quoted()
                names.append(self.text[begin:end])
            else:
                match = _BARE.match(self.text, self.index)
                assert match is not None
                self.index = match.end()
                names.append(match[0])
            self._skip()
            if self.text[self.index : self.index + 1] != ".":
                return names
            self.index += 1

    def _pair(self, table: Path) -> None:
        start = self.index
        names = self._names()
        for count in range(1, len(names) + 1):
            self.document.keys.setdefault((*table, *names[:count]), start)
        self.index += 1  # the equals sign
        self._value((*table, *names))

    def _value(self, path: Path) -> None:
        self._skip()
        start, first = self.index, self.text[self.index]
        if first in "\"'":
            self.document.contents[path], _ = self._quoted()
        elif first == "[":
            self._items(path, "]")
        elif first == "{":
            self._items(path, "}")
        else:
            match = _PLAIN.match(self.text, start)
            assert match is not None
            self.index = match.end()
        self.document.contents.setdefault(path, start)

    def _items(self, path: Path, close: str) -> None:
        self.index += 1
        number = 0
        while self._skip() is not None and self.text[self.index] != close:
            if self.text[self.index] == ",":
                self.index += 1
            elif close == "}":
                self._pair(path)
            else:
                self.document.keys[*path, number] = self.index
                self._value((*path, number))
                number += 1
        self.index += 1

    def _quoted(self) -> tuple[int, int]:
        """Skip a string, and return the start and end of its characters."""
        quote = self.text[self.index]
        triple = self.text.startswith(quote * 3, self.index)
        begin = self.index + (3 if triple else 1)
        if triple and self.text[begin : begin + 1] == "\n":
            begin += 1
        end = begin
        mark = quote * 3 if triple else quote
        while not self.text.startswith(mark, end):
            end += 2 if quote == '"' and self.text[end] == "\\" else 1
        if triple:  # up to two quotes may precede the closing three
            while self.text.startswith(mark, end + 1):
                end += 1
        self.index = end + len(mark)
        return begin, end
