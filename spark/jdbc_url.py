"""JDBC URLs as pk takes them: a SQLite file is relative to a directory that the caller knows, not
to the one that Spark's Java runs in."""

import re
from pathlib import Path
from typing import Final

_SQLITE: Final = re.compile(r"(jdbc:sqlite:)(?!file:|:|/)(.+)")


def with_path(url: str, base: Path) -> str:
    """The URL, with the file of SQLite relative to `base`."""
    match = _SQLITE.fullmatch(url)
    return url if match is None else f"{match[1]}{base / Path(match[2]).expanduser()}"
