"""The errors of a log, as types: a failing disk, or a log directory that this broker must not
use."""

import errno
from types import TracebackType
from typing import Final

from pk.core.errors import ErrorCode, KafkaError

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
LIMITS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EINTR, errno.EAGAIN}
)
"""Temporary shortages of a resource of this process or machine."""
NOT_DISK_FAULTS: Final = FULL | LIMITS | {errno.ENOENT, errno.EBADF, errno.EINVAL}
"""Errors that do not show a failing disk: some come from a file that was removed or closed under a
late reader, or from an impossible position in a damaged index."""


def is_fault(error: OSError) -> bool:
    """Return whether an operation failed because the disk is failing, so that no data on it can be
    trusted."""
    return error.errno not in NOT_DISK_FAULTS


class StorageError(KafkaError):
    """The disk failed a read, a write or a sync (KAFKA_STORAGE_ERROR).

    `directory` is the partition's. If `undone`, the operation left no trace and the log can still
    be used (a full disk). Otherwise the log is dead, and so is its log directory: the contents of
    its files are unknown.
    """

    def __init__(self, directory: str, action: str, cause: OSError, undone: bool = False) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory}: {action}: {cause}")
        self.directory = directory
        self.errno = cause.errno
        self.undone = undone

    @property
    def disk_full(self) -> bool:
        """Whether the cause is a full disk."""
        return self.errno in FULL

    @property
    def is_transient(self) -> bool:
        """Whether the cause is a full disk, or a shortage of another resource that may become
        available again."""
        return self.errno in FULL or self.errno in LIMITS


class UnexpectedLogError(KafkaError):
    """An unexpected error while the files of one log were read (KAFKA_STORAGE_ERROR), with the
    original as its cause.

    It says nothing about other logs or the disk.
    """


class unexpected_errors:  # not a generator: a start enters this and the next context 300,000 times
    """A context for reading the files of one log. An unexpected exception becomes
    `UnexpectedLogError`, so that it ends this work and not the broker. The code inside must change
    nothing that outlasts it."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        """`what` describes the work in the error."""
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(e, Exception) and not isinstance(e, (KafkaError, OSError)):
            raise UnexpectedLogError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._what}: {e!r}") from e


class storage_errors:
    """A context in which an OSError becomes a StorageError for `action` in `directory`. The error
    counts as undone unless the disk is failing, so use this for reads, and for operations that are
    repeated from their beginning."""

    __slots__ = ("_action", "_directory")

    def __init__(self, directory: str, action: str) -> None:
        self._directory = directory
        self._action = action

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(e, OSError):
            raise StorageError(self._directory, self._action, e, not is_fault(e)) from e


class LogDirError(Exception):
    """A log directory that this broker cannot use; the message is one sentence for the operator."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class LogDirInUse(LogDirError):
    """Another process holds the directory's lock."""


class LogDirIsApache(LogDirError):
    """The directory holds the metadata log of Apache Kafka."""


class LogDirMismatch(LogDirError):
    """The directory belongs to another cluster or node."""


class LogDirBroken(LogDirError):
    """The disk of the directory fails, or a file in it is invalid."""
