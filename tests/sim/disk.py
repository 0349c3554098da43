"""A node's disk: it outlives the processes that use it, and loses unsynced data in a power cut.

`MemoryDisk` implements the losses; this module connects it to processes. A process uses it through
a `ProcessDisk`, which dies with the process, so that the cleanup of a killed process does not reach
the disk. A kill leaves the page cache, which is still not durable and which a later power cut
takes; a power cut empties it.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from random import Random
from typing import Any

from sim.processes import Process

from pk.core.log.files import Data, Entry, File, Lock, Stamp, ignore_failed_read
from pk.core.log.memory_disk import MemoryDisk, MemoryFile


class SimFile(MemoryFile):
    """A file of a `SimDisk`."""

    __slots__ = ("_cold",)

    def __init__(self, disk: SimDisk, path: str) -> None:
        super().__init__(disk, path)
        self._cold = disk.cold

    def resident(self, position: int, length: int) -> bool:
        return self.path not in self._cold


class SimDisk(MemoryDisk):
    """A `MemoryDisk` whose process may die without the power going, and whose bytes may rot."""

    def __init__(self) -> None:
        super().__init__()
        self.cold: set[str] = set()
        """Files that the page cache has dropped."""

    def open(self, path: str) -> MemoryFile:
        return SimFile(self, path)

    def rot(self, path: str, data: bytes, position: int) -> None:
        """Change written data. Nothing records it, and the page cache drops the file."""
        with self.mutex:
            self.node(path).data[position : position + len(data)] = data
            self.cold.add(path)

    def process_killed(self) -> None:
        """Locks are free and open files are closed; data and names stay."""
        with self.mutex:
            self.generation += 1
            self._locks.clear()

    def power_cut(self, random: Random) -> None:
        """Lose a random part of the unsynced data: for each file all, nothing, or a part."""
        how = random.random()

        def keep(path: str, unsynced: int) -> int:
            if how < 0.4:
                return 0
            return random.choice((0, unsynced, random.randrange(unsynced + 1)))

        self.heal()
        self.crash(keep, zeroed=random.random() < 0.2, names=random.choice(("lost", "kept")))


class ProcessDisk:
    """The disk as one process sees it (`Disk`)."""

    def __init__(self, disk: SimDisk, process: Process) -> None:
        self._disk = disk
        self._process = process
        self.read_failed = ignore_failed_read

    def _alive(self, path: str) -> SimDisk:
        if not self._process.alive:
            raise OSError(errno.EIO, "the process is dead", path)
        return self._disk

    def open(self, path: str) -> File:
        return self._alive(path).open(path)

    def list(self, path: str, unmeasured: Collection[str] = ()) -> dict[str, Entry]:
        return self._alive(path).list(path, unmeasured)

    def exists(self, path: str) -> bool:
        return self._alive(path).exists(path)

    def stamp(self, path: str) -> Stamp:
        return self._alive(path).stamp(path)

    def make(self, path: str) -> None:
        self._alive(path).make(path)

    def rename(self, old: str, new: str) -> None:
        self._alive(old).rename(old, new)

    def remove(self, path: str) -> None:
        self._alive(path).remove(path)

    def remove_tree(self, path: str) -> None:
        self._alive(path).remove_tree(path)

    def sync_dir(self, path: str) -> None:
        self._alive(path).sync_dir(path)

    def sync_all(self, paths: Collection[str]) -> bool:
        return self._alive(next(iter(paths))).sync_all(paths)

    def read(self, path: str) -> bytes:
        return self._alive(path).read(path)

    def write(
        self, path: str, data: Data, *, sync: bool = True, sync_name: bool | None = None
    ) -> None:
        self._alive(path).write(path, bytes(data), sync=sync, sync_name=sync_name)

    def lock(self, path: str, text: str) -> Lock:
        return _ProcessLock(self._alive(path).lock(path, text), self._process)

    def free_bytes(self, path: str) -> tuple[int, int]:
        return self._alive(path).free_bytes(path)

    def __getattr__(self, name: str) -> Any:
        """Attributes that a disk has beyond the protocol."""
        return getattr(self._alive(name), name)


class _ProcessLock:
    """A lock that the machine released when its process died: it may be another's since."""

    def __init__(self, lock: Lock, process: Process) -> None:
        self._lock = lock
        self._process = process

    def release(self) -> None:
        if self._process.alive:
            self._lock.release()
