"""What goes wrong with a log, as types: the disk's fault, or a data directory that is not ours to
use."""

import errno
from types import TracebackType
from typing import Final

from pk.core.errors import ErrorCode, KafkaError

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
LIMITS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EINTR, errno.EAGAIN}
)
"""What this process or machine is short of for a while."""
NOT_THE_DISK: Final = FULL | LIMITS | {errno.ENOENT, errno.EBADF, errno.EINVAL}
"""Also a file that was removed or closed under a late reader, and a position that a damaged index
made up."""


def is_fault(error: OSError) -> bool:
    """Whether an operation failed because the disk does, so that what else lies on it cannot be
    trusted either."""
    return error.errno not in NOT_THE_DISK


class StorageError(KafkaError):
    """The disk failed a read, a write or a sync (KAFKA_STORAGE_ERROR).

    `directory` is that of the partition. When `undone` the operation left no trace and the log can
    go on (a full disk); else the log is dead, and so is its log directory: what is in its files is
    not known any more.
    """

    def __init__(self, directory: str, action: str, cause: OSError, undone: bool = False) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory}: {action}: {cause}")
        self.directory = directory
        self.errno = cause.errno
        self.undone = undone

    @property
    def disk_full(self) -> bool:
        """Whether it failed for want of space."""
        return self.errno in FULL

    @property
    def is_passing(self) -> bool:
        """Whether it failed for want of space, or of something else that this process will have
        again."""
        return self.errno in FULL or self.errno in LIMITS


class Unforeseen(KafkaError):
    """An unexpected error while the files of one log were read (KAFKA_STORAGE_ERROR). Its cause is
    what it was.

    It says nothing of other logs, nor of the disk."""


class of_one_log:  # no generator: starts enter it and the next one 300,000 times
    """Within it only what one log consists of is read, and nothing is changed that outlasts it: an
    exception that no handler foresaw becomes `Unforeseen`, and ends that work, not the broker."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        """`what` is being done."""
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(e, Exception) and not isinstance(e, (KafkaError, OSError)):
            raise Unforeseen(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._what}: {e!r}") from e


class storage_errors:
    """Within it an OSError becomes the StorageError of `action` in `directory`, which left no trace
    unless the disk fails: a read, or something that is done again from its begin."""

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


class LogDirOfAnother(LogDirError):
    """The directory belongs to another cluster or node."""


class LogDirBroken(LogDirError):
    """The disk of the directory fails, or a file in it cannot be understood."""
