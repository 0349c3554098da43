"""What goes wrong with a log, as types: the disk's fault, or a data directory that is not ours to use."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from pk.core.errors import ErrorCode, KafkaError


class StorageError(KafkaError):
    """The disk failed a read, a write or a sync (KAFKA_STORAGE_ERROR).

    `directory` is that of the partition. When `undone` the operation left no trace and the log can go on (a full disk);
    else the log is dead, and so is the log directory it lies in: what is in its files is not known any more.
    """

    def __init__(self, directory: str, action: str, cause: OSError, undone: bool = False) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory}: {action}: {cause}")
        self.directory = directory
        self.errno = cause.errno
        self.undone = undone

    @property
    def disk_full(self) -> bool:
        """Whether it failed for want of space."""
        return self.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def storage_errors(directory: str, action: str) -> Iterator[None]:
    """Within it an OSError becomes the StorageError of whoever did `action` in `directory`."""
    try:
        yield
    except OSError as e:
        raise StorageError(directory, action, e) from e


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
