"""Text for a terminal: its width, cutting and folding it, and escaping characters that a terminal
would interpret.

Names of groups, clients and transactions, their metadata, config values and a broker's error
messages may contain any character. `escaped` shows control characters instead of sending them.
"""

import re
from typing import Final

_MARKS: Final = "\u2028-\u202e\u2066-\u2069"
"""Line separators and changes of text direction that are not control characters."""

_ACTIVE: Final = re.compile(rf"[\x00-\x1f\x7f-\x9f{_MARKS}]")
_ACTIVE_IN_LINES: Final = re.compile(
    rf"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f{_MARKS}]"
)
"""The characters to escape in pk's own text, which may have newlines, tabs and colors."""


_ACTIVE_BYTES: Final = re.compile(
    rb"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]"
    rb"|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
"""The characters to escape, in UTF-8."""


_PIECE: Final = re.compile(r"\s*\S+\s*")


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def escaped(text: str) -> str:
    """`text` on one line, with control characters written as in Python."""
    return text if text.isprintable() else _ACTIVE.sub(_shown, text)


def escaped_lines(text: str) -> str:
    """Escape pk's own `text`, which may contain such names: lines and colors stay."""
    return text if text.isprintable() else _ACTIVE_IN_LINES.sub(_shown, text)


def escaped_bytes(data: bytes) -> bytes:
    """Escape bytes that are written to a terminal unformatted: records, and lists in formats for
    programs."""
    return _ACTIVE_BYTES.sub(lambda found: found[0].decode().encode("unicode_escape"), data)


def printable(text: str) -> str:
    """Escape all unprintable characters of `text`, including bytes that are not UTF-8, for screens
    on which every character must have a width."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape_of(c) for c in text)


def _escape_of(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def width_of(text: str) -> int:
    """The number of terminal columns of a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Cut `text` to `width` terminal columns, with … at the end."""
    if width_of(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, max(width - 1, 0)) + "…"


def cut_middle(text: str, width: int) -> str:
    """Cut `text` in the middle to `width` columns, with … between, since both ends distinguish long
    names."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    from rich.cells import set_cell_size

    back = (width - 1) // 2
    front = width - 1 - back
    tail = text[-back:] if back else ""
    while width_of(tail) > back:
        tail = tail[1:]
    return set_cell_size(text, front) + "…" + " " * (back - width_of(tail)) + tail


def folded(text: str, width: int) -> list[str]:
    """The lines of a text folded to a column: between words, or within a word that is wider than
    the column, after a comma or a dot if that leaves no line half empty."""
    lines: list[str] = []
    for part in text.split("\n"):
        line, used = "", 0
        for piece in _PIECE.findall(part) or [""]:
            wide = width_of(piece.rstrip())
            if used and used + wide > width:
                lines.append(line.rstrip())
                line, used = "", 0
            while wide > width:
                cut = _cut(piece, width)
                lines.append(piece[:cut])
                piece = piece[cut:]
                wide = width_of(piece.rstrip())
            line += piece
            used += width_of(piece)
        lines.append(line.rstrip())
    return lines


def _cut(word: str, width: int) -> int:
    """The number of characters of a word, wider than the column, that fit on its line."""
    end = _chars_in(word, width)
    separator = max(word.rfind(",", 0, end), word.rfind(".", 0, end)) + 1
    return separator if separator > end // 2 else end


def _chars_in(text: str, width: int) -> int:
    """The number of characters of a text that fit a width; at least one, so that folding ends."""
    if text.isascii():
        return width
    used = 0
    for i, char in enumerate(text):
        used += width_of(char)
        if used > width:
            return max(i, 1)
    return len(text)


def folded_addresses(text: str, width: int) -> list[str]:
    """The lines of a sentence that ends with addresses, joined by commas: broken between words, and
    after a comma if the addresses need more than one line."""
    lines = [""]
    for word in text.split(" "):
        parts = [f"{part}," for part in word.split(",")]
        parts[-1] = parts[-1].removesuffix(",")
        pieces = [word] if width_of(word) <= width else [part for part in parts if part]
        for i, piece in enumerate(pieces):
            gap = " " if i == 0 and lines[-1] else ""
            if lines[-1] and width_of(lines[-1] + gap + piece) > width:
                lines.append(piece)
            else:
                lines[-1] += gap + piece
    return lines


def folded_sentence(text: str, width: int) -> str:
    """Wrap a sentence to that width; commands in it (`pk undo 3`) stay on one line. Tables and JSON
    are not changed."""
    if len(text) <= max(width, 40) or "\n" in text or "  " in text or text.startswith("{"):
        return text
    import textwrap

    glued = re.sub(r"`[^`]*`", lambda command: command[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(glued, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")
