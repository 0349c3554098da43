"""The lines of files of text."""

import codecs
from collections.abc import Iterable


def without_bom(line: bytes) -> bytes:
    """A file's first line without the mark that it is UTF-8."""
    return line.removeprefix(codecs.BOM_UTF8)


def file_lines(content: bytes) -> list[bytes]:
    """The lines of a whole file, without their line feeds."""
    lines = without_bom(content).split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def json_lines(lines: Iterable[bytes], *, first: bool) -> list[bytes | None]:
    """Lines without what ends them; an empty one is None. `first`: the first may begin a file."""
    found: list[bytes | None] = []
    for line in lines:
        text = line.removesuffix(b"\r")
        if first:
            text = without_bom(text)
            first = False
        found.append(text if text.strip() else None)
    return found
