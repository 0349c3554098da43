"""The error for words that are no command line."""

from collections.abc import Sequence


class UsageError(Exception):
    """The words typed are no command line; `path` is the command whose help would say more."""

    def __init__(self, message: str, path: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.path = tuple(path)
