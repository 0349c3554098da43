"""Checks whether a typed or piped text is a JSON document, an unfinished one, or wrong, and at
which position."""

import json
import re
from collections.abc import Iterable
from typing import NamedTuple


class Fault(NamedTuple):
    """Why a text is not a JSON document. `position` counts characters from 0; line and column count
    from 1."""

    message: str
    position: int
    line: int
    column: int
    unfinished: bool
    """Whether more text may complete it."""

    def __str__(self) -> str:
        if self.unfinished:
            return "the JSON is not finished"
        at = f"column {self.column}" if self.line == 1 else f"line {self.line} column {self.column}"
        return f"not JSON at {at}: {self.message}"


class _NotJson(ValueError):
    pass


def _refuse(word: str) -> None:
    raise _NotJson(word)


_SAID = {
    "Unterminated string starting at": "the string that begins here has no closing quote",
    "Invalid control character at": "a line end or a control character inside a string",
    "Expecting value": "a value is missing or misspelled",
    "Extra data": "text after the end of the document",
}
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)
"""Keeps numbers as text: Python refuses to convert thousands of digits, which are valid JSON."""

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def fault(text: str) -> Fault | None:
    """The first error in `text` as one JSON document; None if it is valid."""
    try:
        _DECODER.decode(text)
    except json.JSONDecodeError as e:
        unfinished = e.pos >= len(text.rstrip()) and not e.msg.startswith("Unterminated")
        message = _SAID.get(e.msg) or e.msg[0].lower() + e.msg[1:]
        return Fault(message, e.pos, e.lineno, e.colno, unfinished)
    except _NotJson as e:
        # The same word may occur earlier, inside a string.
        bare = _TEXT.sub(lambda found: " " * len(found[0]), text)
        position = bare.index(str(e))
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        return Fault(f"{e} is not JSON", position, line, column, False)
    except RecursionError:
        return Fault("it is nested too deeply", 0, 1, 1, False)
    return None


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class Documents:
    """Joins the lines of a stream into JSON documents: one per line, or one on several lines.

    Parsing after every line would take quadratic time for a long document. Therefore it is parsed
    when its brackets are closed (JSON strings contain no line ends, so brackets can be counted line
    by line) and, to find mistakes early, whenever the number of its lines is a power of two.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._open = 0
        self._number = 0
        self._first = 0

    def feed(self, lines: Iterable[bytes]) -> list[bytes]:
        """Add `lines`. Returns the documents that they complete. Raises BadDocument, which names
        the wrong line."""
        documents: list[bytes] = []
        for line in lines:
            self._number += 1
            if not self._lines:
                if not line.strip():
                    continue
                self._first = self._number
                self._open = 0
            self._lines.append(line)
            count = len(self._lines)
            bare = _STRING.sub(b"", line)
            self._open += bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
            if self._open > 0 and count & (count - 1):
                continue
            text = b"\n".join(self._lines)
            found = self._fault(text, documents)
            if found is None:
                documents.append(text)
                self._lines.clear()
            elif not found.unfinished:
                where = self._first + found.line - 1
                raise BadDocument(
                    f"Line {where}, column {found.column}: {found.message}.", documents
                )
        return documents

    def end(self) -> None:
        """Raise BadDocument if the stream ended inside a document."""
        if self._lines:
            raise BadDocument(
                f"Line {self._first}: the JSON document that begins here is not finished.", []
            )

    def _fault(self, text: bytes, before: list[bytes]) -> Fault | None:
        try:
            return fault(text.decode())
        except UnicodeDecodeError:
            raise BadDocument(f"Line {self._number}: not UTF-8, so not JSON.", before) from None


class BadDocument(ValueError):
    """The stream is not JSON. `before` has the complete documents before the mistake."""

    def __init__(self, message: str, before: list[bytes]) -> None:
        super().__init__(message)
        self.before = before


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def indented(text: str) -> str:
    """A JSON document on several lines. Numbers, escapes and repeated names stay as written;
    parsing the document would change them."""
    parts: list[str] = []
    depth = 0
    previous = ""
    for token in _TOKEN.findall(text):
        closes = token in "}]"
        depth -= closes
        opened = previous in ("{", "[")
        if (previous == "," or opened or closes) and not (opened and closes):
            parts.append("\n" + "  " * depth)
        parts.append(": " if token == ":" else token)
        depth += token in "{["
        previous = token
    return "".join(parts)
