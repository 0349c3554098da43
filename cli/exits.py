"""Exit codes, and the errors that commands raise. `pk.cli.runtime.failures` has the words for all
other errors."""

from collections.abc import Sequence
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes. `pk help exit-codes` prints this table."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_CONNECTION = 3
    NOT_AUTHORISED = 4
    REFUSED = 5
    LASTING = 78
    TIMED_OUT = 124
    INTERRUPTED = 130


MEANING = {
    Exit.OK: "success",
    Exit.FAILED: "at least one item failed; the output says which",
    Exit.USAGE: "invalid command line; nothing was done",
    Exit.NO_CONNECTION: "no broker reachable",
    Exit.NOT_AUTHORISED: "a broker refused: authentication or authorization",
    Exit.REFUSED: "refused by a guard: no answer, an active group, a read-only profile",
    Exit.LASTING: "a pipeline failed, and will fail again until something is changed",
    Exit.TIMED_OUT: "timed out",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
}


class CommandError(Exception):
    """The command cannot continue. The text is one sentence with the next step; `code` is the exit
    code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message.replace("?.", "?"))
        self.code = code


class Refused(CommandError):
    """A guard refused the change; nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.REFUSED)


class Unusable(CommandError):
    """The command line is invalid; nothing was done."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


class UsageError(Exception):
    """The words are not a valid command line; `path` is the command whose help explains more."""

    def __init__(self, message: str, path: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.path = tuple(path)
