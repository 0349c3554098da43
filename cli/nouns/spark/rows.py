"""The rows of `pk spark`."""

from typing import TypedDict


class FileRow(TypedDict):
    """A file that the command wrote."""

    file: str
    bytes: int
