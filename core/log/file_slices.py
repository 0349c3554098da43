"""A piece of a log on its way to a reader: bytes in memory, or a range of a file that the kernel
can send directly."""

from typing import Protocol, TypeAlias

from pk.core.log.non_blocking import WouldBlock, reads


class SliceFile(Protocol):
    """A file from which a `FileSlice` is sent."""

    def pread(self, length: int, position: int) -> bytes: ...
    def fileno(self) -> int | None: ...
    def pin(self) -> None: ...
    def unpin(self) -> None: ...
    def resident(self, position: int, length: int) -> bool: ...


class BytesSlice:
    """A slice that is bytes in memory (MemoryDisk, TLS, simulation)."""

    __slots__ = ("data", "length")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.length = len(data)

    def read(self) -> bytes | memoryview:
        """Return the bytes."""
        return self.data

    def __repr__(self) -> str:
        return f"BytesSlice({self.length} bytes)"


class FileSlice:
    """`length` bytes of `file` from `position`.

    To send it by descriptor, call `pin` before `fileno`, and `unpin` after the last byte. In
    between, the descriptor stays open, so that a reused number never sends another file's bytes. If
    the file was truncated in the meantime, a send is short, and the connection must be closed.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: SliceFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def read(self) -> bytes:
        """Read the bytes from the file; fewer than `length` if the file was truncated in the
        meantime."""
        return self.file.pread(self.length, self.position)

    def read_nowait(self) -> bytes | None:
        """Like `read`, but returns None if the read may have to wait for the disk."""
        before, reads.non_blocking = reads.non_blocking, True
        try:
            return self.file.pread(self.length, self.position)
        except WouldBlock:
            return None
        finally:
            reads.non_blocking = before

    def pin(self) -> None:
        """Open the descriptor and keep it open. Raises OSError."""
        self.file.pin()

    def unpin(self) -> None:
        """Release the descriptor after one `pin`."""
        self.file.unpin()

    def fileno(self) -> int | None:
        """Return the descriptor, which is valid while pinned; None if the disk has none."""
        return self.file.fileno()

    def resident(self) -> bool:
        """Return whether the bytes are in the page cache, as far as this can be found out.
        Otherwise a send may block on the disk."""
        return self.file.resident(self.position, self.length)

    def __repr__(self) -> str:
        return f"FileSlice({self.length} bytes at {self.position} of {self.file!r})"


Slice: TypeAlias = BytesSlice | FileSlice

EMPTY = BytesSlice(b"")
"""The empty slice."""
