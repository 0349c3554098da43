"""What the log needs of a disk: two small protocols, which `RealDisk` and `MemoryDisk` fulfil.

The seam is cut at bytes and names, not at Kafka's meaning: everything above (segments, indexes,
checkpoints) is written once, and runs on a real file system, in memory (`pk up --memory`), and in
the simulator, where a disk can fail.

Every operation raises `OSError`. Paths are strings with `/` between their parts.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from pk.core.log.file_slices import Slice

Data: TypeAlias = bytes | bytearray | memoryview
"""What can be written. A memoryview counts bytes (format B)."""


PIECES_MAX: Final = 1024
"""As many buffers as one `pwritev` takes (IOV_MAX of Linux and macOS)."""


class Entry(NamedTuple):
    """One name in a directory."""

    size: int
    """In bytes; 0 for a directory."""
    modified_ms: int
    is_directory: bool


UNMEASURED: Final = Entry(0, 0, False)
"""A name that is there, and was not measured."""


class Stamp(NamedTuple):
    """Changes when the bytes of a file or the names in a directory do, as finely as the file system
    tells the time."""

    size: int
    """In bytes; 0 for a directory."""
    time: int
    """Of the last change: comparable only with that of the same path of the same disk."""


class LockHeld(OSError):
    """Somebody else holds a lock file; `holder` is what they wrote into it."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path} is held by {holder or 'another process'}")
        self.holder = holder


class Lock(Protocol):
    """A held lock file."""

    def release(self) -> None: ...


class File(Protocol):
    """One file. It opens at first use and may be closed and opened again behind its user's back."""

    path: str

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Data, position: int) -> None:
        """Write all of `data`, creating the file when it does not exist."""
        ...

    def pwritev(self, pieces: Sequence[Data], position: int) -> None:
        """Write all of `pieces`, at most `PIECES_MAX`, one after another: by one call, where the
        system has it. The file exists."""
        ...

    def size(self) -> int:
        """In bytes; 0 when the file does not exist."""
        ...

    def truncate(self, length: int) -> None: ...

    def allocate(self, length: int) -> None:
        """Give the file `length` bytes, zeroes at its end, and the room on the disk that they
        need."""
        ...

    def extend(self, length: int) -> None:
        """Give the file `length` bytes: a hole at its end, which needs no room. Where holes do need
        it, nothing is done."""
        ...

    def sync(self) -> None:
        """Make the content durable (not the name: `Disk.sync_dir`)."""
        ...

    def close(self) -> None:
        """Let the descriptor go, after the last `unpin`. The next use opens the file again."""
        ...

    def rename(self, path: str) -> None:
        """Rename the file; readers in flight keep it."""
        ...

    def fileno(self) -> int | None: ...
    def pin(self) -> None: ...
    def unpin(self) -> None: ...

    def resident(self, position: int, length: int) -> bool:
        """Whether a read of these bytes would not wait for the disk, as far as a probe can tell."""
        ...

    def slice(self, position: int, length: int) -> Slice: ...


def ignore_failed_read(path: str, error: OSError) -> None:
    """Ignores which reads fail."""


class Disk(Protocol):
    """A file system."""

    read_failed: Callable[[str, OSError], None]
    """Called with the path of what cannot be read since the disk fails (`failures.is_fault`), in
    the thread of the reader, who gets the error too. One place to hear of every read: what a disk
    cannot give back cannot be trusted with more, so its log directory goes offline, as with
    Kafka."""

    def open(self, path: str) -> File:
        """A file by its path; nothing happens on the disk until it is used."""
        ...

    def list(self, path: str, unmeasured: Collection[str] = ()) -> dict[str, Entry]:
        """What is in a directory, by name in order; of the names in `unmeasured` nothing but that
        they are there."""
        ...

    def exists(self, path: str) -> bool: ...

    def stamp(self, path: str) -> Stamp:
        """By which a file or a directory is known to be as it was."""
        ...

    def make(self, path: str) -> None:
        """Make a directory and those above it; an existing one is no error."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory, replacing a file of the new name."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def sync_all(self, paths: Collection[str]) -> bool:
        """Make everything on the file systems that hold these directories durable, contents and
        names. False if the system cannot do that, or would not report that it failed."""
        ...

    def read(self, path: str) -> bytes:
        """A whole small file."""
        ...

    def write(
        self, path: str, data: bytes, *, sync: bool = True, sync_name: bool | None = None
    ) -> None:
        """Replace a small file whole: a reader (and, with `sync`, a crash) finds the old content or
        the new. `sync_name=False` leaves it to a later `sync_dir` which of the two a crash
        finds."""
        ...

    def lock(self, path: str, text: str) -> Lock:
        """Hold a lock file and write `text` into it. Raises LockHeld."""
        ...

    def free_bytes(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the file system that holds `path`."""
        ...
