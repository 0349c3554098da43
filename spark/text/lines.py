"""Splits text files into lines."""

import codecs
from collections.abc import Iterable


def without_bom(line: bytes) -> bytes:
    """A file's first line, without a byte order mark."""
    return line.removeprefix(codecs.BOM_UTF8)


def file_lines(content: bytes) -> list[bytes]:
    """The lines of a whole file, without their line feeds."""
    lines = without_bom(content).split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def json_lines(lines: Iterable[bytes], *, first: bool) -> list[bytes | None]:
    """Lines without carriage returns at their ends; an empty line is None. With `first`, the first
    line may begin with a byte order mark."""
    found: list[bytes | None] = []
    for line in lines:
        text = line.removesuffix(b"\r")
        if first:
            text = without_bom(text)
            first = False
        found.append(text if text.strip() else None)
    return found
