"""The log's interface to a disk: two small protocols, implemented by `RealDisk` and `MemoryDisk`.

The interface is about bytes and names, not about Kafka's concepts. The code that uses it (segments,
indexes, checkpoints) is the same for a real file system, for memory (`pk up --memory`), and for the
simulator, whose disks can fail.

Every operation raises `OSError`. Paths are strings with `/` between their parts.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from pk.core.log.file_slices import Slice

Data: TypeAlias = bytes | bytearray | memoryview
"""Data to write. The length of a memoryview is in bytes (format B)."""


PIECES_MAX: Final = 1024
"""The maximum number of buffers of one `pwritev` (IOV_MAX of Linux and macOS)."""


class Entry(NamedTuple):
    """A name in a directory."""

    size: int
    """The size in bytes; 0 for a directory."""
    modified_ms: int
    is_directory: bool


UNMEASURED: Final = Entry(0, 0, False)
"""The entry of a name whose size was not determined."""


class Stamp(NamedTuple):
    """A value that changes whenever the bytes of a file or the names in a directory change, within
    the resolution of the file system's clock."""

    size: int
    """The size in bytes; 0 for a directory."""
    time: int
    """The time of the last change. Compare it only with that of the same path on the same disk."""


class LockHeld(OSError):
    """Another process holds a lock file; `holder` is the text in it."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path} is held by {holder or 'another process'}")
        self.holder = holder


class Lock(Protocol):
    """A held lock file."""

    def release(self) -> None: ...


class File(Protocol):
    """A file. It is opened at first use, and may be closed and reopened without its user
    noticing."""

    path: str

    def pread(self, length: int, position: int) -> bytes:
        """Read up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Data, position: int) -> None:
        """Write all of `data`, creating the file if it does not exist."""
        ...

    def pwritev(self, pieces: Sequence[Data], position: int) -> None:
        """Write all of `pieces`, at most `PIECES_MAX`, one after another, in one call if the system
        supports that. The file must exist."""
        ...

    def size(self) -> int:
        """Return the size in bytes; 0 if the file does not exist."""
        ...

    def truncate(self, length: int) -> None: ...

    def allocate(self, length: int) -> None:
        """Extend the file with zeros to `length` bytes, and reserve space for them on the disk."""
        ...

    def extend(self, length: int) -> None:
        """Extend the file to `length` bytes with a hole, which uses no space. Does nothing on a
        system on which holes use space."""
        ...

    def sync(self) -> None:
        """Make the content durable, but not the name (see `Disk.sync_dir`)."""
        ...

    def close(self) -> None:
        """Close the descriptor, after the last `unpin`. The next use opens the file again."""
        ...

    def rename(self, path: str) -> None:
        """Rename the file; reads in flight continue."""
        ...

    def fileno(self) -> int | None: ...
    def pin(self) -> None: ...
    def unpin(self) -> None: ...

    def resident(self, position: int, length: int) -> bool:
        """Return whether a read of these bytes would not have to wait for the disk, as far as this
        can be found out."""
        ...

    def slice(self, position: int, length: int) -> Slice: ...


def ignore_failed_read(path: str, error: OSError) -> None:
    """Do nothing: the default for `Disk.read_failed`."""


class Disk(Protocol):
    """A file system."""

    read_failed: Callable[[str, OSError], None]
    """Called with a path that cannot be read because the disk is failing (`failures.is_fault`). It
    runs in the thread of the reader, which gets the error too. All failed reads are reported here,
    because a disk that loses data must not be used: its log directory goes offline, as in Kafka."""

    def open(self, path: str) -> File:
        """Return the file at `path`. The disk is not accessed until the file is used."""
        ...

    def list(self, path: str, unmeasured: Collection[str] = ()) -> dict[str, Entry]:
        """List a directory, sorted by name. The sizes of the names in `unmeasured` are not
        determined."""
        ...

    def exists(self, path: str) -> bool: ...

    def stamp(self, path: str) -> Stamp:
        """Return a stamp that shows whether a file or directory has changed."""
        ...

    def make(self, path: str) -> None:
        """Create a directory and its parents, unless it exists."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory. An existing file of the new name is replaced."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and its contents."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def sync_all(self, paths: Collection[str]) -> bool:
        """Make all contents and names on the file systems of these directories durable. Returns
        False if the system does not support that, or would not report a failure."""
        ...

    def read(self, path: str) -> bytes:
        """Read all of a small file."""
        ...

    def write(
        self, path: str, data: bytes, *, sync: bool = True, sync_name: bool | None = None
    ) -> None:
        """Replace a small file atomically: a reader finds either the old or the new content and,
        with `sync`, so does the next start after a crash. With `sync_name=False` the new content is
        certain to survive a crash only after a later `sync_dir`."""
        ...

    def lock(self, path: str, text: str) -> Lock:
        """Lock a file and write `text` into it. Raises LockHeld."""
        ...

    def free_bytes(self, path: str) -> tuple[int, int]:
        """Return the total and the usable bytes of the file system that has `path`."""
        ...
