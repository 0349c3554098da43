"""The real disk. Only this file and page_cache.py use `os` among the files of the log.

Open files. 10,000 partitions have at least 30,000 files, and a process often has 1,024 descriptors.
So a `RealFile` is opened at first use, and the disk closes files not used recently when more than
60 % of RLIMIT_NOFILE (its soft limit raised to the hard one) are open. It selects them by *second
chance*: every use sets a flag; the search for a victim clears flags until it finds one that is
clear. So a use costs the hot path one store, not a lock and a list.

Closing a descriptor that another thread is about to use would be fatal: the number is reused at
once, and the write goes into another file. So a descriptor is held by a `_Descriptor`, which closes
it when its last reference is dropped. An operation holds a reference in a local variable, and
evicting a file only drops the file's own. So no lock is needed between getting the descriptor and
using it.
"""

import contextlib
import fcntl
import functools
import os
import re
import resource
import shutil
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence

from pk.core.log import page_cache
from pk.core.log.failures import is_fault
from pk.core.log.file_slices import FileSlice
from pk.core.log.files import (
    UNMEASURED,
    Data,
    Disk,
    Entry,
    File,
    Lock,
    LockHeld,
    Stamp,
    ignore_failed_read,
)
from pk.core.log.memory_disk import MemoryDisk
from pk.core.log.non_blocking import reads

__all__ = [
    "Data",
    "Disk",
    "Entry",
    "File",
    "Lock",
    "LockHeld",
    "MemoryDisk",
    "RealDisk",
    "this_process",
]

SHARE_OF_DESCRIPTORS = 0.6
"""The share of RLIMIT_NOFILE for log files. The rest is for connections."""

READ_BYTES = 1 << 16
"""Bytes per read of a small file. Most files need only one read."""

_SYNCED_WHOLE = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs"})
"""File systems whose `syncfs` writes everything and reports errors; those of FUSE and overlayfs do
not."""

_DESCRIPTORS_MAX = 1 << 20
_FULLFSYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""On macOS, fsync leaves the data in the drive's cache; this command writes it to the medium."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit. Returns the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else hard
    for limit in (
        wanted,
        min(wanted, 10_240),
    ):  # macOS refuses more than OPEN_MAX although it reports infinity
        if soft != resource.RLIM_INFINITY and soft >= limit:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (ValueError, OSError):
            continue
        return limit
    return _DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft


def _file_system_of(device: int) -> str:
    """Return the type of the file system with this device number, by Linux's name; "" if
    unknown."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            before, _, after = line.partition(" - ")
            if before.split()[2] == number:
                return after.split()[0]
    return ""


@functools.cache
def _sync_of_file_systems() -> Callable[[int], None] | None:
    """Return a function that calls `syncfs` on a descriptor and raises OSError. None if the system
    has no `syncfs`, or one that does not report write errors (Linux's does since 5.8)."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if sys.platform != "linux" or release is None or tuple(map(int, release.groups())) < (5, 8):
        return None
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None
    call.restype, call.argtypes = ctypes.c_int, (ctypes.c_int,)

    def sync(fd: int) -> None:
        if call(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return sync


def this_process() -> str:
    """Return the content of a lock file, which names this process."""
    return f"process {os.getpid()}"


class _Descriptor:
    """An open descriptor, which is closed with its last reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class RealFile:
    """A file of a `RealDisk`."""

    __slots__ = ("_closing", "_disk", "descriptor", "listed", "path", "pins", "used")

    def __init__(self, disk: "RealDisk", path: str) -> None:
        self.path = path
        self._disk = disk
        self.descriptor: _Descriptor | None = None
        """None while the file is closed. The disk also changes this and the following attributes,
        under its mutex."""
        self.used = False
        """Whether it was used since the disk last searched for files to close."""
        self.pins = 0
        """How many callers need the descriptor to stay open."""
        self._closing = False
        self.listed = False
        """Whether the file is in the disk's list of open files."""

    def pread(self, length: int, position: int) -> bytes:
        descriptor = self._descriptor()
        try:
            if reads.non_blocking:
                return page_cache.pread(descriptor.fd, length, position)
            data = os.pread(descriptor.fd, length, position)
            while len(data) < length:
                more = os.pread(descriptor.fd, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as e:
            self._disk.note(self.path, e)
            raise
        return data

    def pwrite(self, data: Data, position: int) -> None:
        descriptor = self.descriptor
        if descriptor is None:
            descriptor = self._disk.reopen(self, create=True)
        self.used = True
        written = os.pwrite(descriptor.fd, data, position)
        if written != len(data):
            self._write_rest(descriptor, data, position, written)

    def _write_rest(self, descriptor: _Descriptor, data: Data, position: int, written: int) -> None:
        """Write the rest of `data`, which begins at `position`, after a partial write."""
        with memoryview(data) as view:
            while written < len(view):
                with view[written:] as rest:
                    written += os.pwrite(descriptor.fd, rest, position + written)

    def pwritev(self, pieces: Sequence[Data], position: int) -> None:
        if not hasattr(os, "pwritev"):  # macOS before 11
            self.pwrite(b"".join(pieces), position)
            return
        descriptor = self._descriptor()
        written = os.pwritev(descriptor.fd, pieces, position)
        for piece in pieces:
            size = len(piece)
            if written < size:
                self._write_rest(descriptor, piece, position, max(written, 0))
            position += size
            written -= size

    def size(self) -> int:
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0

    def truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor().fd, length)

    def allocate(self, length: int) -> None:
        fd = self._descriptor().fd
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, length)
        else:  # macOS: sets the size without reserving space
            os.ftruncate(fd, length)

    def extend(self, length: int) -> None:
        self.pwrite(b"", 0)
        os.ftruncate(self._descriptor().fd, length)

    def sync(self) -> None:
        descriptor = self._descriptor()
        if _FULLFSYNC is not None:
            fcntl.fcntl(descriptor.fd, _FULLFSYNC)
        else:
            os.fdatasync(descriptor.fd)

    def close(self) -> None:
        with self._disk.mutex:
            self._closing = self.pins > 0
            if not self.pins:
                self.descriptor = None

    def rename(self, path: str) -> None:
        with self._disk.mutex:  # a concurrent open uses either the old or the new name
            os.rename(self.path, path)
            self.path = path

    def fileno(self) -> int | None:
        descriptor = self.descriptor
        return descriptor.fd if descriptor is not None else None

    def pin(self) -> None:
        with self._disk.mutex:
            self.pins += 1
        try:
            self._descriptor()
        except OSError:
            self.unpin()
            raise

    def unpin(self) -> None:
        with self._disk.mutex:
            self.pins -= 1
            assert self.pins >= 0, f"{self.path}: unpinned more often than pinned"
            if self._closing and not self.pins:
                self.descriptor = None
                self._closing = False

    def resident(self, position: int, length: int) -> bool:
        descriptor = self._descriptor()
        with self._disk.reading(self.path):
            return page_cache.resident(descriptor.fd, position, length)

    def slice(self, position: int, length: int) -> FileSlice:
        return FileSlice(self, position, length)

    def __repr__(self) -> str:
        return f"RealFile({self.path!r})"

    def _descriptor(self) -> _Descriptor:
        self.used = True
        descriptor = self.descriptor
        return descriptor if descriptor is not None else self._disk.reopen(self)


class _RealLock:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lock_as_java(fd: int, path: str) -> None:
    """Also take the other kind of lock, which Apache Kafka takes on its directories. Raises
    LockHeld."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise LockHeld(path, "another program, such as Apache Kafka,") from None


class RealDisk:
    """The file system of this machine. `open_files_max` limits the descriptors that logs keep open.
    `read_only` opens files for reading, so that nothing can be written, and files without write
    permission can be opened."""

    def __init__(self, open_files_max: int | None = None, *, read_only: bool = False) -> None:
        self._access = os.O_RDONLY if read_only else os.O_RDWR
        self._open_max = open_files_max or int(raise_descriptor_limit() * SHARE_OF_DESCRIPTORS)
        self._ring: deque[RealFile] = deque()
        self.mutex = threading.Lock()
        self.read_failed = ignore_failed_read

    def note(self, path: str, error: OSError) -> None:
        """Report that reading `path` failed, if the disk is at fault."""
        if is_fault(error):
            self.read_failed(path, error)

    @contextlib.contextmanager
    def reading(self, path: str) -> Generator[None]:
        """Report an OSError that is raised while `path` is read."""
        try:
            yield
        except OSError as e:
            self.note(path, e)
            raise

    def open(self, path: str) -> RealFile:
        return RealFile(self, path)

    def reopen(self, file: RealFile, create: bool = False) -> _Descriptor:
        """Open `file`, and first close a file that was not used recently if too many are open. Only
        a write creates a file: a late read of a removed file must not create it again."""
        with self.mutex:
            if file.descriptor is None:
                creates = create and self._access == os.O_RDWR
                flags = self._access | os.O_CLOEXEC | (os.O_CREAT if creates else 0)
                with self.reading(file.path):
                    descriptor = _Descriptor(os.open(file.path, flags, 0o644))
                if not file.listed:
                    if len(self._ring) >= self._open_max:
                        self._evict()
                    self._ring.append(file)
                    file.listed = True
                file.descriptor = descriptor
            file.used = True
            return file.descriptor

    def _evict(self) -> None:
        for _ in range(2 * len(self._ring)):
            file = self._ring.popleft()
            if file.descriptor is None:
                file.listed = False
                return
            if not file.pins and not file.used:
                file.descriptor = None
                file.listed = False
                return
            file.used = False
            self._ring.append(file)

    def list(self, path: str, unmeasured: Collection[str] = ()) -> dict[str, Entry]:
        # Optimized for speed: a start lists every log's directory, which takes longer than anything
        # else.
        found: dict[str, Entry] = {}
        with self.reading(path), os.scandir(path) as entries:
            for entry in entries:
                if entry.name in unmeasured:
                    found[entry.name] = UNMEASURED
                    continue
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # removed since it was listed
                directory = entry.is_dir()
                size = 0 if directory else status.st_size
                found[entry.name] = Entry(size, status.st_mtime_ns // 1_000_000, directory)
        return {name: found[name] for name in sorted(found)}

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def stamp(self, path: str) -> Stamp:
        try:
            status = os.stat(path)
        except OSError as e:
            self.note(path, e)
            raise
        return Stamp(0 if stat.S_ISDIR(status.st_mode) else status.st_size, status.st_mtime_ns)

    def make(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, paths: Collection[str]) -> bool:
        sync = _sync_of_file_systems()
        devices = {os.stat(path).st_dev: path for path in paths}
        if sync is None or not _SYNCED_WHOLE.issuperset(map(_file_system_of, devices)):
            return False
        for path in devices.values():
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                sync(fd)
            finally:
                os.close(fd)
        return True

    def read(self, path: str) -> bytes:
        with self.reading(path):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                pieces: list[bytes] = []
                while piece := os.read(fd, READ_BYTES):
                    pieces.append(piece)
            finally:
                os.close(fd)
        return b"".join(pieces)

    def write(
        self, path: str, data: bytes, *, sync: bool = True, sync_name: bool | None = None
    ) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync if sync_name is None else sync_name:
            self.sync_dir(os.path.dirname(path) or ".")

    def lock(self, path: str, text: str) -> Lock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _lock_as_java(fd, path)
            os.ftruncate(fd, 0)
            os.pwrite(fd, text.encode(), 0)
        except BlockingIOError:
            holder = os.pread(fd, 4096, 0).decode("utf-8", "replace").strip()
            os.close(fd)
            raise LockHeld(path, holder) from None
        except OSError:
            os.close(fd)
            raise
        return _RealLock(fd)

    def free_bytes(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail
