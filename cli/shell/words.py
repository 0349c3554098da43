"""A line of the shell, taken apart: words, where its output goes, and the word under the cursor."""

import shlex
from typing import NamedTuple

from pk.cli.grammar import UsageError


class Line(NamedTuple):
    """A command line: its words, and a file or a command that its output goes to."""

    words: list[str]
    file: str | None = None
    append: bool = False
    command: str | None = None


def split_line(text: str) -> Line:
    """Words as a POSIX shell parts them; `> FILE`, `>> FILE` and `| COMMAND` may follow. Raises UsageError."""
    position = _redirect(text)
    head, tail = (text, "") if position is None else (text[:position], text[position:])
    words = _split(head)
    if not tail:
        return Line(words)
    if tail.startswith("|"):
        if not tail[1:].strip():
            raise UsageError("a command is missing after |")
        return Line(words, command=tail[1:].strip())
    append = tail.startswith(">>")
    target = _split(tail[2 if append else 1 :])
    if len(target) != 1:
        raise UsageError("one file is wanted after >")
    return Line(words, file=target[0], append=append)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as e:
        raise UsageError(f"a quote is not closed ({e})") from None


def _redirect(text: str) -> int | None:
    """Where `>` or `|` stands as a word's beginning, outside quotes."""
    quote = ""
    for i, char in enumerate(text):
        if quote:
            if char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in ">|" and (i == 0 or text[i - 1].isspace()):
            return i
    return None


def before_cursor(text: str) -> tuple[list[str], str]:
    """The whole words before the cursor, and what of the next one has been typed. An open quote is no obstacle."""
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
    return words, current
