"""JDBC URLs in pk's options: a SQLite file is relative to a directory that the caller chooses, not
to the working directory of Spark's JVM."""

import re
from pathlib import Path
from typing import Final

_SQLITE: Final = re.compile(r"(jdbc:sqlite:)(?!file:|:|/)(.+)")


def with_path(url: str, base: Path) -> str:
    """The URL with an absolute path of its SQLite file, if it has one; a relative path starts at
    `base`."""
    match = _SQLITE.fullmatch(url)
    return url if match is None else f"{match[1]}{base / Path(match[2]).expanduser()}"
