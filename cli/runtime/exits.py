"""Exit codes, and the errors that a command raises on purpose. The sentences for other errors are in `pk.cli.runtime.failures`."""

from enum import IntEnum


class Exit(IntEnum):
    """What the process answers. `pk help exit-codes` prints this table."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_CONNECTION = 3
    NOT_AUTHORISED = 4
    REFUSED = 5
    TIMED_OUT = 124
    INTERRUPTED = 130


MEANING = {
    Exit.OK: "all of it was done",
    Exit.FAILED: "at least one item failed; the others were done, and each says so",
    Exit.USAGE: "the command line is wrong; nothing was done",
    Exit.NO_CONNECTION: "no broker could be reached",
    Exit.NOT_AUTHORISED: "a broker refused: authentication or authorisation",
    Exit.REFUSED: "refused by a guard: no answer, an active group, a read-only profile",
    Exit.TIMED_OUT: "the time given ran out",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
}


class CommandError(Exception):
    """A command cannot go on: one sentence with the next step, and the exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message.replace("?.", "?"))
        self.code = code


class Refused(CommandError):
    """A guard said no; nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.REFUSED)


class Unusable(CommandError):
    """An option's value makes no sense; nothing was done."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)
