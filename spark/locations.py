"""Parses the locations of files that users give: a path, or a URL.

Commands and pipelines use these functions to recognize URLs. Otherwise they would create a
directory `s3:` for a URL that they do not know.
"""

import re
from pathlib import Path
from typing import Final

from pk.spark.errors import OptionError

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_FILE: Final = re.compile(
    r"file:(?://(?P<host>[^/]*))?(?P<path>/(?!/).*)", re.IGNORECASE | re.DOTALL
)


def scheme(place: str | Path) -> str | None:
    """The scheme of a URL, in lower case; None for a path."""
    match = _URL.match(place) if isinstance(place, str) else None
    return None if match is None else match[1].lower()


def is_remote(place: str | Path) -> bool:
    """Whether a location is a URL of something other than a local directory."""
    return scheme(place) not in (None, "file")


def local_path(place: str | Path, base: Path | None = None) -> Path:
    """The absolute path of a local location: a path, relative to `base` (or to the working
    directory), or a `file:` URL. Raises OptionError for another URL."""
    text = str(place)
    if scheme(place) is None:
        return (base or Path.cwd()) / Path(text).expanduser()
    match = _FILE.fullmatch(text)
    if match is None or match["host"] not in (None, "", "localhost"):
        raise OptionError(f"{text} is not on this machine")
    return Path(match["path"])
