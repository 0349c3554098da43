"""A disk in memory: a full implementation (`pk up --memory`), which can also lose, tear and refuse
writes.

A crash has exactly the effects that it has on a real disk. Bytes of a file are durable after
`File.sync`, names in a directory after `Disk.sync_dir` of it. Until then a crash may lose all or
part of them, and the caller of `crash` decides how much: nothing here is random.

To undo unsynced writes, a file keeps overwritten bytes; appends, which logs mostly do, need only
the size at the last sync. A directory keeps the names of its last sync.
"""

import errno
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from pk.core.log.failures import is_fault
from pk.core.log.file_slices import BytesSlice
from pk.core.log.files import (
    UNMEASURED,
    Data,
    Entry,
    Lock,
    LockHeld,
    Stamp,
    ignore_failed_read,
)

HOLE_BYTES_MAX: Final = 1 << 16
"""Holes up to this length are filled with zeros, as they are read from a real disk. Larger holes
would take up too much memory."""

Operation = Literal[
    "read", "write", "sync", "truncate", "rename", "remove", "sync_dir", "sync_all", "make"
]


class _Undo(Struct):
    """Undoes one unsynced write or truncation."""

    size: int
    """The size of the file before the change."""
    position: int
    lost: bytes
    """The bytes that were at `position` before the change."""


class _Node(Struct):
    """The content of a file."""

    data: bytearray = field(default_factory=bytearray)
    undo: list[_Undo] = field(default_factory=list[_Undo])
    changed: int = 0
    """The disk's change counter when the file was last written or truncated."""


class _Directory(Struct):
    names: "dict[str, _Node | _Directory]" = field(default_factory=dict[str, "_Node | _Directory"])
    durable: "dict[str, _Node | _Directory]" = field(
        default_factory=dict[str, "_Node | _Directory"]
    )
    changed: int = 0
    """The disk's change counter when a name in it was last created, replaced or removed."""


class _Fault(Struct):
    operation: Operation
    code: int
    suffix: str
    after_bytes: int
    times: int


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


class MemoryFile:
    """An open file of a `MemoryDisk`."""

    __slots__ = ("_disk", "_generation", "_node", "path")

    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self.path = path
        self._disk = disk
        self._node: _Node | None = None
        self._generation = disk.generation

    def pread(self, length: int, position: int) -> bytes:
        if self._disk.faults:
            self._disk.check_read(self.path)
        with self._disk.mutex, memoryview(self._content().data) as data:
            return bytes(data[position : position + length])

    def pwrite(self, data: Data, position: int) -> None:
        disk = self._disk
        with disk.mutex:
            node = self._content(create=True)
            if disk.faults and (fault := disk.fault("write", self.path)):
                disk.put(node, bytes(data)[: fault.after_bytes], position)
                raise OSError(fault.code, "the disk failed a write", self.path)
            disk.put(node, data, position)

    def pwritev(self, pieces: Sequence[Data], position: int) -> None:
        self.pwrite(b"".join(pieces), position)

    def size(self) -> int:
        with self._disk.mutex:
            try:
                return len(self._content().data)
            except FileNotFoundError:
                return 0

    def truncate(self, length: int) -> None:
        disk = self._disk
        with disk.mutex:
            node = self._content()
            disk.check("truncate", self.path)
            if length < len(node.data):
                node.undo.append(_Undo(len(node.data), length, bytes(node.data[length:])))
                disk.used_bytes -= len(node.data) - length
                del node.data[length:]
                node.changed = disk.count_change()
            else:
                disk.put(node, bytes(length - len(node.data)), len(node.data))

    def allocate(self, length: int) -> None:
        if length > self.size():
            self.truncate(length)

    def extend(self, length: int) -> None:
        self.pwrite(b"", 0)
        if length <= HOLE_BYTES_MAX:
            self.allocate(length)

    def sync(self) -> None:
        with self._disk.mutex:
            node = self._content()
            self._disk.check("sync", self.path)
            node.undo.clear()

    def close(self) -> None:
        self._node = None

    def rename(self, path: str) -> None:
        with self._disk.mutex:
            self._disk.rename(self.path, path)
            self.path = path

    def fileno(self) -> int | None:
        return None

    def pin(self) -> None:
        """Does nothing: a slice has its own bytes."""

    def unpin(self) -> None:
        """See `pin`."""

    def resident(self, position: int, length: int) -> bool:
        return True

    def slice(self, position: int, length: int) -> BytesSlice:
        return BytesSlice(self.pread(length, position))

    def __repr__(self) -> str:
        return f"MemoryFile({self.path!r})"

    def _content(self, create: bool = False) -> _Node:
        if self._generation != self._disk.generation:
            raise OSError(errno.EIO, "the disk has crashed since this file was opened", self.path)
        if self._node is None:
            self._node = self._disk.node(self.path, create)
        return self._node


class _MemoryLock:
    def __init__(self, held: dict[str, str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.pop(self._path, None)


class MemoryDisk:
    """A disk in memory of at most `bytes_max` bytes (None: unlimited). Writes beyond that fail with
    ENOSPC."""

    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.read_failed = ignore_failed_read
        self.generation = 0
        """The number of crashes. Files that were opened before a crash cannot be used after it."""
        self.faults: list[_Fault] = []
        self.mutex = threading.RLock()
        self._root = _Directory()
        self._changes = 0
        self._locks: dict[str, str] = {}

    # --- faults ---

    def fail_next(
        self,
        operation: Operation,
        code: int = errno.EIO,
        *,
        suffix: str = "",
        after_bytes: int = 0,
        times: int = 1,
    ) -> None:
        """Make the next `times` operations of this kind, on paths that end in `suffix`, fail with
        `code`. A write first writes `after_bytes` of its bytes: a torn write whose writer gets an
        error."""
        self.faults.append(_Fault(operation, code, suffix, after_bytes, times))

    def heal(self) -> None:
        """Cancel the failures that have not happened yet."""
        self.faults.clear()

    def crash(
        self,
        keep: Callable[[str, int], int] | int = 0,
        *,
        zeroed: bool = False,
        names: Literal["lost", "kept"] = "lost",
    ) -> None:
        """Lose unsynced data, release locks, and make open files unusable.

        `keep` is how many of the appended and unsynced bytes of a file reached the disk: a number
        for all files, or a function of the path and the count of these bytes. Bytes that were
        overwritten or truncated since the last sync come back, unless all bytes appended after that
        are kept. With `zeroed` the lost bytes are zeros instead of missing (the size reached the
        disk, the data did not). `names` says whether the changes to names since the last sync of
        their directory are lost or kept.
        """
        with self.mutex:
            self.generation += 1
            self._locks.clear()
            if names == "lost":
                self._lose_names(self._root)
            self._lose_bytes(self._root, "", keep, zeroed)
            self.used_bytes = self._count(self._root)

    def unsynced_bytes(self, path: str) -> int:
        """Return how many bytes at the end of a file would be lost in a crash."""
        with self.mutex:
            node = self.node(path)
            return max(0, len(node.data) - min((u.size for u in node.undo), default=len(node.data)))

    def check(self, operation: Operation, path: str) -> None:
        """Raise the error of a failure that is due, if any."""
        if self.faults and (fault := self.fault(operation, path)):
            raise OSError(fault.code, f"the disk failed a {operation}", path)

    def check_read(self, path: str) -> None:
        """Like `check`, for a read. The failure is also reported to `read_failed`."""
        try:
            self.check("read", path)
        except OSError as e:
            if is_fault(e):
                self.read_failed(path, e)
            raise

    def fault(self, operation: Operation, path: str) -> _Fault | None:
        """Take the failure that is due, if any."""
        for fault in self.faults:
            if fault.operation == operation and path.endswith(fault.suffix):
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
                return fault
        return None

    # --- names ---

    def open(self, path: str) -> MemoryFile:
        return MemoryFile(self, path)

    def list(self, path: str, unmeasured: Collection[str] = ()) -> dict[str, Entry]:
        with self.mutex:
            return {
                name: UNMEASURED
                if name in unmeasured
                else Entry(
                    0 if isinstance(n, _Directory) else len(n.data), 0, isinstance(n, _Directory)
                )
                for name, n in sorted(self._directory(path).names.items())
            }

    def exists(self, path: str) -> bool:
        with self.mutex:
            return self._find(path) is not None

    def stamp(self, path: str) -> Stamp:
        with self.mutex:
            found = self._find(path)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
            size = 0 if isinstance(found, _Directory) else len(found.data)
            return Stamp(size, found.changed)

    def make(self, path: str) -> None:
        with self.mutex:
            self.check("make", path)
            directory = self._root
            for part in _split(path):
                if part not in directory.names:
                    directory.names[part] = _Directory(changed=self.count_change())
                    directory.changed = self.count_change()
                child = directory.names[part]
                if not isinstance(child, _Directory):
                    raise FileExistsError(errno.EEXIST, "a file of that name exists", path)
                directory = child

    def rename(self, old: str, new: str) -> None:
        with self.mutex:
            self.check("rename", old)
            source, old_name = self._parent(old)
            target, new_name = self._parent(new)
            if old_name not in source.names:
                raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
            replaced = target.names.get(new_name)
            node = source.names[old_name]
            if isinstance(replaced, _Directory) and replaced.names and replaced is not node:
                raise OSError(errno.ENOTEMPTY, "the directory is not empty", new)
            if isinstance(replaced, _Node) and replaced is not node:
                self.used_bytes -= len(replaced.data)
            del source.names[old_name]
            target.names[new_name] = node
            source.changed = target.changed = self.count_change()

    def remove(self, path: str) -> None:
        with self.mutex:
            self.check("remove", path)
            parent, name = self._parent(path)
            node = parent.names.get(name)
            if not isinstance(node, _Node):
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            del parent.names[name]
            parent.changed = self.count_change()
            self.used_bytes -= len(node.data)

    def remove_tree(self, path: str) -> None:
        with self.mutex:
            self.check("remove", path)
            directory = self._directory(path)
            parent, name = self._parent(path)
            del parent.names[name]
            parent.changed = self.count_change()
            self.used_bytes -= self._count(directory)

    def sync_dir(self, path: str) -> None:
        with self.mutex:
            self.check("sync_dir", path)
            directory = self._directory(path)
            directory.durable = dict(directory.names)

    def sync_all(self, paths: Collection[str]) -> bool:
        with self.mutex:
            for path in paths:
                self.check("sync_all", path)
                self._sync_tree(self._directory(path))
        return True

    def read(self, path: str) -> bytes:
        self.check_read(path)
        with self.mutex:
            return bytes(self.node(path).data)

    def write(
        self, path: str, data: bytes, *, sync: bool = True, sync_name: bool | None = None
    ) -> None:
        with self.mutex:
            temporary = self.open(path + ".tmp")
            temporary.pwrite(data, 0)
            temporary.truncate(len(data))
            if sync:
                temporary.sync()
            self.rename(temporary.path, path)
            if sync if sync_name is None else sync_name:
                self.sync_dir(path.rpartition("/")[0])

    def lock(self, path: str, text: str) -> Lock:
        with self.mutex:
            if path in self._locks:
                raise LockHeld(path, self._locks[path])
            self.node(path, create=True)
            self._locks[path] = text
            return _MemoryLock(self._locks, path)

    def free_bytes(self, path: str) -> tuple[int, int]:
        total = self.bytes_max if self.bytes_max is not None else 1 << 62
        return total, total - self.used_bytes

    # --- inside, under the mutex ---

    def count_change(self) -> int:
        """Count a change. Returns its number."""
        self._changes += 1
        return self._changes

    def node(self, path: str, create: bool = False) -> _Node:
        """Return the content of a file. Raises FileNotFoundError."""
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None and create:
            node = parent.names[name] = _Node(changed=self.count_change())
            parent.changed = self.count_change()
        if not isinstance(node, _Node):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def put(self, node: _Node, data: Data, position: int) -> None:
        """Write into a file. If the disk would be full, writes nothing and raises OSError
        (ENOSPC)."""
        content = node.data
        size = len(content)
        end = position + len(data)
        if end > size:
            if self.bytes_max is not None and self.used_bytes + end - size > self.bytes_max:
                raise OSError(errno.ENOSPC, "the memory disk is full")
            self.used_bytes += end - size
        lost = bytes(content[position:end]) if position < size else b""
        if lost or not node.undo:
            node.undo.append(_Undo(size, position, lost))
        if position > size:
            content.extend(bytes(position - size))
        content[position:end] = data
        node.changed = self.count_change()

    def _find(self, path: str) -> _Node | _Directory | None:
        found: _Node | _Directory | None = self._root
        for part in _split(path):
            if not isinstance(found, _Directory):
                return None
            found = found.names.get(part)
        return found

    def _directory(self, path: str) -> _Directory:
        found = self._find(path)
        if not isinstance(found, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return found

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        return self._directory(parent), name

    def _sync_tree(self, directory: _Directory) -> None:
        directory.durable = dict(directory.names)
        for node in directory.names.values():
            if isinstance(node, _Directory):
                self._sync_tree(node)
            else:
                node.undo.clear()

    def _count(self, directory: _Directory) -> int:
        return sum(
            self._count(node) if isinstance(node, _Directory) else len(node.data)
            for node in directory.names.values()
        )

    def _lose_names(self, directory: _Directory) -> None:
        directory.names = dict(directory.durable)
        for node in directory.names.values():
            if isinstance(node, _Directory):
                self._lose_names(node)

    def _lose_bytes(
        self, directory: _Directory, path: str, keep: Callable[[str, int], int] | int, zeroed: bool
    ) -> None:
        directory.durable = dict(directory.names)
        for name, node in directory.names.items():
            where = f"{path}/{name}"
            if isinstance(node, _Directory):
                self._lose_bytes(node, where, keep, zeroed)
                continue
            if not node.undo:
                continue
            whole = bytes(node.data)
            for undo in reversed(node.undo):
                del node.data[undo.size :]
                node.data[undo.position : undo.position + len(undo.lost)] = undo.lost
            durable = len(node.data)
            unsynced = max(0, len(whole) - durable)
            kept = min(unsynced, keep if isinstance(keep, int) else keep(where, unsynced))
            if unsynced and kept == unsynced:
                node.data[:] = whole
            else:
                node.data += whole[durable : durable + kept]
                if zeroed:
                    node.data += bytes(unsynced - kept)
            node.undo.clear()
