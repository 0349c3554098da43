"""Parses a line of the shell: words, repetition, redirection, and the word at the cursor."""

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pk.cli.exits import UsageError
from pk.cli.options.values import pause

WATCH = "2s"
"""`\\w` without a duration."""

_WATCH = re.compile(r"(?:^|\s)\\w(?:\s*(?P<every>[0-9.][0-9a-z.]*))?\s*$")
_VERTICAL = re.compile(r"(?:^|\s*)\\G\s*$")


class Line(NamedTuple):
    """A command line: its words, how to show the result, and the file or program for its output."""

    words: list[str]
    file: str | None = None
    append: bool = False
    command: str | None = None
    watch_s: float | None = None
    vertical: bool = False


def split_line(text: str) -> Line:
    r"""Split a line into words, as a POSIX shell does. `\w N` or `\G` may follow, then `> FILE`,
    `>> FILE` or `| COMMAND`, and a comment after `#`.

    Raises UsageError.
    """
    text = _without_comment(text)
    position = _redirect(text)
    head, tail = (text, "") if position is None else (text[:position], text[position:])
    head, watch_s, vertical = _suffixes(head)
    words = _split(head)
    if not tail:
        return Line(words, watch_s=watch_s, vertical=vertical)
    if tail.startswith("|"):
        if not tail[1:].strip():
            raise UsageError("A command is missing after |")
        return Line(words, command=tail[1:].strip(), watch_s=watch_s, vertical=vertical)
    append = tail.startswith(">>")
    target = _split(tail[2 if append else 1 :])
    if len(target) != 1:
        raise UsageError("One file must follow >")
    return Line(words, target[0], append, watch_s=watch_s, vertical=vertical)


def split_commands(text: str) -> list[tuple[str, str]]:
    """The commands of a line separated by `;` and `&&`, each with the separator before it (empty
    for the first).

    Neither separates inside quotes, within a word (`a;b`), and after a `|` or `#`, since the text
    there belongs to a program or a comment.
    """
    found: list[tuple[str, str]] = []
    quote, start, before = "", 0, ""
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
            continue
        apart = i == 0 or text[i - 1].isspace()
        if char in "'\"":
            quote = char
        elif char in "|#" and apart:
            break
        elif char == ";" and (apart or text[i + 1 : i + 2].strip() == "") and text[i - 1] != "\\":
            found.append((before, text[start:i]))
            before, start = ";", i + 1
        elif text[i : i + 2] == "&&" and apart:
            found.append((before, text[start:i]))
            before, start = "&&", i + 2
    found.append((before, text[start:]))
    return [(mark, part.strip()) for mark, part in found]


def joined(lines: Iterable[str]) -> Iterator[str]:
    """The lines, with a line that ends in a backslash joined to the next."""
    whole = ""
    for line in lines:
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        yield whole + line
        whole = ""
    if whole:
        yield whole


def _suffixes(head: str) -> tuple[str, float | None, bool]:
    r"""The line without a final `\w N` or `\G`, and their values."""
    if (found := _WATCH.search(head)) is not None:
        try:
            every = pause(found["every"] or WATCH)
        except ValueError as e:
            raise UsageError(f"\\w {e}") from None
        rest = head[: found.start()]
        if _VERTICAL.search(rest):
            raise UsageError("\\w and \\G cannot be combined")
        return rest, every.s, False
    if (found := _VERTICAL.search(head)) is not None:
        rest = head[: found.start()]
        if _WATCH.search(rest):
            raise UsageError("\\w and \\G cannot be combined")
        return rest, None, True
    return head, None, False


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as e:
        raise UsageError(f"A quote is not closed ({e})") from None


def _without_comment(text: str) -> str:
    """The line up to a `#` that starts a word; a `#` after a `|` belongs to the program."""
    position = _first(text, "#|")
    return text if position is None or text[position] == "|" else text[:position]


def _redirect(text: str) -> int | None:
    """The index at which a redirection starts."""
    return _first(text, ">|")


def _first(text: str, marks: str) -> int | None:
    """The index of the first of these characters that starts a word outside quotes."""
    quote = ""
    for i, char in enumerate(text):
        if quote:
            if char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in marks and (i == 0 or text[i - 1].isspace()):
            return i
    return None


def parted(text: str) -> tuple[list[str], str, str]:
    """The complete words before the cursor, the part of the next one, and the open quote (empty if
    there is none)."""
    words: list[str] = []
    current = ""
    quote = ""
    inside = False
    for char in text:
        if quote:
            if char == quote:
                quote = ""
            else:
                current += char
        elif char in "'\"":
            quote, inside = char, True
        elif char.isspace():
            if inside:
                words.append(current)
            current, inside = "", False
        else:
            current += char
            inside = True
    return words, current, quote


def quoted(word: str, quote: str) -> str:
    """Quote `word` so that the shell reads it as one word, after an open `quote` if there is
    one."""
    if quote:
        return word
    return word if word and not re.search(r"[\s'\"\\>|#]", word) else shlex.quote(word)


def is_after_output(text: str) -> bool:
    """Whether the cursor is after a `>`, `|` or `#`, where pk's words do not apply."""
    return _redirect(text) is not None or _first(text, "#") is not None
