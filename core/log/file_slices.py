"""A piece of a log on its way to a reader: bytes in memory, or a range of a file that the kernel
can send directly."""

from typing import Protocol, TypeAlias

from pk.core.log.non_blocking import WouldBlock, reads


class SliceFile(Protocol):
    """The interface of the file of a `FileSlice`."""

    def pread(self, length: int, position: int) -> bytes: ...
    def fileno(self) -> int | None: ...
    def pin(self) -> None: ...
    def unpin(self) -> None: ...
    def resident(self, position: int, length: int) -> bool: ...


class BytesSlice:
    """Bytes in memory (MemoryDisk, TLS, simulation)."""

    __slots__ = ("data", "length")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.length = len(data)

    def read(self) -> bytes | memoryview:
        """The bytes."""
        return self.data

    def __repr__(self) -> str:
        return f"BytesSlice({self.length} bytes)"


class FileSlice:
    """`length` bytes of `file` from `position`.

    To send it by descriptor, call `pin` before `fileno`, and `unpin` after the last byte. In
    between, the descriptor stays open, so that a reused number never sends another file's bytes.
    The file may have been truncated in the meantime, which shows in a short send; then the
    connection must close.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: SliceFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def read(self) -> bytes:
        """The bytes, read from the file; fewer than `length` if the file has since been
        truncated."""
        return self.file.pread(self.length, self.position)

    def read_nowait(self) -> bytes | None:
        """Like `read`; None if the read may have to wait for the disk."""
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
        """Undo one `pin`."""
        self.file.unpin()

    def fileno(self) -> int | None:
        """The descriptor, valid while pinned; None if the disk has none."""
        return self.file.fileno()

    def resident(self) -> bool:
        """Whether the bytes are in the page cache, as far as a probe can tell. If not, a send may
        block on the disk."""
        return self.file.resident(self.position, self.length)

    def __repr__(self) -> str:
        return f"FileSlice({self.length} bytes at {self.position} of {self.file!r})"


Slice: TypeAlias = BytesSlice | FileSlice

EMPTY = BytesSlice(b"")
"""The empty slice."""
