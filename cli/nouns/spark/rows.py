"""The rows of `pk spark`."""

from typing import TypedDict


class PackageRow(TypedDict):
    """A file that `pk spark package` wrote."""

    file: str
    bytes: int
