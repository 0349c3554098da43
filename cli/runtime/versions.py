"""The versions of pk, Python and the libraries."""

import os
import platform
import re
from importlib import metadata
from typing import Final, TypedDict

from pk.core import __version__


class VersionRow(TypedDict):
    """A program or library, and its version."""

    name: str
    version: str


DISTRIBUTIONS: Final = ("pk-client", "pk-broker")
"""The distributions of pk."""


def _requirements(name: str) -> list[str]:
    """The requirements of a distribution; empty if it is not installed."""
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []


def versions() -> list[VersionRow]:
    """The versions of everything that pk consists of; libraries that are not installed are left
    out."""
    system = os.uname()
    found: list[VersionRow] = [
        {"name": "pk", "version": __version__},
        {"name": "python", "version": platform.python_version()},
        {"name": "platform", "version": f"{system.sysname} {system.release} {system.machine}"},
    ]
    needed = [each for name in DISTRIBUTIONS for each in _requirements(name)]
    used = (each for each in needed if not re.search(r"extra == ['\"](dev|docs|plots)", each))
    names = {match[0].lower() for each in used if (match := re.match(r"[\w.-]+", each))}
    for name in sorted(names.difference(DISTRIBUTIONS)):
        try:
            found.append({"name": name, "version": metadata.version(name)})
        except metadata.PackageNotFoundError:
            continue
    return found
