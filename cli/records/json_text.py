"""Whether a text is a JSON document, not yet one, or none, and where it goes wrong: for what is typed and what is piped in."""

import json
import re
from collections.abc import Iterable
from typing import NamedTuple


class Fault(NamedTuple):
    """Why a text is no JSON document. `position` counts characters from 0; line and column count from 1."""

    message: str
    position: int
    line: int
    column: int
    unfinished: bool
    """Whether more text may make it one."""

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
    "Unterminated string starting at": "the text that begins here is not closed",
    "Invalid control character at": "a line end or a control character inside a text",
    "Expecting value": "a value is missing or misspelt",
    "Extra data": "more text after the end of the document",
}
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)
"""Numbers stay texts: Python makes none of one with thousands of digits, which is good JSON."""

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def fault(text: str) -> Fault | None:
    """What is wrong with `text` as one JSON document; None where it is one."""
    try:
        _DECODER.decode(text)
    except json.JSONDecodeError as e:
        unfinished = e.pos >= len(text.rstrip()) and not e.msg.startswith("Unterminated")
        message = _SAID.get(e.msg) or e.msg[0].lower() + e.msg[1:]
        return Fault(message, e.pos, e.lineno, e.colno, unfinished)
    except _NotJson as e:
        # The same word may stand in a text before.
        bare = _TEXT.sub(lambda found: " " * len(found[0]), text)
        position = bare.index(str(e))
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        return Fault(f"{e} is no JSON", position, line, column, False)
    except RecursionError:
        return Fault("it is nested too deeply", 0, 1, 1, False)
    return None


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class Documents:
    """Gathers the lines of a stream into JSON documents: one a line, or one over several lines.

    Reading what is gathered anew with each line would take a long document's length squared. So it is read when its
    brackets are closed (texts hold no line ends in JSON, so a line's brackets can be counted by themselves), and, to
    find mistakes early, whenever the number of its lines is a power of two.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._open = 0
        self._number = 0
        self._first = 0

    def feed(self, lines: Iterable[bytes]) -> list[bytes]:
        """The documents that `lines` complete. Raises BadDocument that says which line is wrong."""
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
        """Raises BadDocument where the stream ended inside a document."""
        if self._lines:
            raise BadDocument(
                f"Line {self._first}: the JSON document that begins there is not finished.", []
            )

    def _fault(self, text: bytes, before: list[bytes]) -> Fault | None:
        try:
            return fault(text.decode())
        except UnicodeDecodeError:
            raise BadDocument(f"Line {self._number}: not UTF-8, so no JSON.", before) from None


class BadDocument(ValueError):
    """A stream holds what is no JSON document; `before` are those that were complete."""

    def __init__(self, message: str, before: list[bytes]) -> None:
        super().__init__(message)
        self.before = before
