"""Both disks keep one contract; the memory disk can also lose, tear and refuse."""

import ctypes
import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from pk.core.log import page_cache
from pk.core.log.disk import Disk, LockHeld, MemoryDisk, RealDisk, this_process
from pk.core.log.file_slices import BytesSlice, FileSlice
from pk.core.log.non_blocking import WouldBlock, reads


@pytest.fixture(params=["real", "memory"])
def disk_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "real":
        return RealDisk(), str(tmp_path)
    disk = MemoryDisk()
    disk.make("/root")
    return disk, "/root"


def test_a_file_is_written_read_cut_and_renamed(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    file = disk.open(f"{root}/a")
    assert file.size() == 0
    file.pwrite(b"hello", 0)
    file.pwrite(memoryview(b"world"), 7)
    assert file.pread(100, 0) == b"hello\0\0world"
    assert file.pread(3, 8) == b"orl"
    assert file.pread(3, 50) == b""
    file.truncate(4)
    assert (file.size(), file.pread(10, 0)) == (4, b"hell")
    file.sync()
    file.rename(f"{root}/b")
    assert file.path == f"{root}/b"
    assert list(disk.list(root)) == ["b"]
    assert disk.list(root)["b"].size == 4
    file.close()
    assert file.pread(4, 0) == b"hell", "a closed file opens again"


def test_reading_what_is_missing_creates_nothing(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    for action in (
        lambda: disk.open(f"{root}/x").pread(1, 0),
        lambda: disk.open(f"{root}/x").truncate(0),
        lambda: disk.open(f"{root}/x").sync(),
        lambda: disk.read(f"{root}/x"),
        lambda: disk.remove(f"{root}/x"),
        lambda: disk.rename(f"{root}/x", f"{root}/y"),
        lambda: disk.list(f"{root}/x"),
    ):
        with pytest.raises(FileNotFoundError):
            action()
    assert disk.list(root) == {}


def test_directories(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    disk.make(f"{root}/d/e")
    disk.make(f"{root}/d/e")
    disk.write(f"{root}/d/e/f", b"1")
    disk.write(f"{root}/d/e/f", b"22", sync=False)
    assert disk.read(f"{root}/d/e/f") == b"22"
    assert disk.list(f"{root}/d/e").keys() == {"f"}
    assert disk.list(root)["d"].is_directory
    disk.rename(f"{root}/d", f"{root}/g")
    assert disk.exists(f"{root}/g/e/f") and not disk.exists(f"{root}/d")
    disk.sync_dir(root)
    disk.remove_tree(f"{root}/g")
    assert disk.list(root) == {}


def test_a_lock_has_one_holder_and_says_who(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    lock = disk.lock(f"{root}/.lock", this_process())
    with pytest.raises(LockHeld) as raised:
        disk.lock(f"{root}/.lock", "another")
    assert raised.value.holder == f"process {os.getpid()}"
    lock.release()
    lock.release()
    disk.lock(f"{root}/.lock", "another").release()


def test_slices_of_both_disks_give_the_same_bytes(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    file = disk.open(f"{root}/a")
    file.pwrite(bytes(range(200)), 0)
    piece = file.slice(10, 20)
    assert piece.length == 20
    assert piece.read() == bytes(range(10, 30))
    assert isinstance(piece, FileSlice if isinstance(disk, RealDisk) else BytesSlice)


def test_open_files_stay_within_the_bound(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=4)
    files = [disk.open(f"{tmp_path}/{i}") for i in range(20)]
    for turn in range(3):
        for i, file in enumerate(files):
            file.pwrite(b"%d" % i, turn)
            assert sum(each.descriptor is not None for each in files) <= 4
    for i, file in enumerate(files):
        assert file.pread(1, 2) == b"%d" % i if i < 10 else b"1"


def test_a_file_in_use_is_evicted_after_one_that_is_not(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=3)
    hot = disk.open(f"{tmp_path}/hot")
    hot.pwrite(b"x", 0)
    for i in range(3):  # the first look finds all of them in use, and takes the oldest
        disk.open(f"{tmp_path}/{i}").pwrite(b"y", 0)
        hot.pwrite(b"x", 0)
    descriptor = hot.descriptor
    for i in range(3, 20):
        disk.open(f"{tmp_path}/{i}").pwrite(b"y", 0)
        assert hot.descriptor is descriptor
        hot.pwrite(b"x", 0)


def test_a_pinned_file_keeps_its_descriptor(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=2)
    pinned = disk.open(f"{tmp_path}/pinned")
    pinned.pwrite(b"mine", 0)
    piece = pinned.slice(0, 4)
    assert isinstance(piece, FileSlice)
    piece.pin()
    descriptor = piece.fileno()
    assert descriptor is not None
    for i in range(10):
        disk.open(f"{tmp_path}/{i}").pwrite(b"else", 0)
    pinned.close()
    disk.remove(f"{tmp_path}/pinned")
    assert piece.fileno() == descriptor
    assert os.pread(descriptor, 4, 0) == b"mine"
    piece.unpin()
    assert piece.fileno() is None, "closed, once no reader needs it"


def test_pinning_what_is_gone_leaves_no_pin(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/gone")
    with pytest.raises(FileNotFoundError):
        file.pin()
    file.pwrite(b"", 0)
    file.close()
    assert file.fileno() is None


@pytest.fixture(params=["counted", "probed"])
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to ask the kernel which pages are in memory, if it supports both."""
    if request.param == "probed":
        monkeypatch.setattr(page_cache, "_cached_pages", lambda: None)
    elif page_cache._cached_pages() is None:  # pyright: ignore[reportPrivateUsage]
        pytest.skip("this kernel has no cachestat")


def drop_pages(path: Path, position: int, length: int) -> None:
    """Take them out of the page cache. Skips the test on a file system that keeps them."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    for _ in range(100):  # a page that the kernel is busy with stays
        os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_DONTNEED)
        if not in_memory(path, position):
            break
    else:
        pytest.skip("the file system keeps its pages")
    os.close(descriptor)


def in_memory(path: Path, position: int) -> bool:
    """Whether mincore(2) reports the page in memory. Unlike a read, it does not start to fetch the
    page."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = ctypes.create_string_buffer(1)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        start = ctypes.c_char.from_buffer(pages, position)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(1), found)
        error = ctypes.get_errno()
        del start  # it holds the mapping
    if failed:
        raise OSError(error, "mincore")
    return bool(found.raw[0] & 1)


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="no RWF_NOWAIT on this platform")
@pytest.mark.usefixtures("asked")
def test_what_was_just_written_is_resident(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/a")
    file.pwrite(bytes(300_000), 0)
    try:
        os.preadv(os.open(f"{tmp_path}/a", os.O_RDONLY), [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as e:
        pytest.skip(f"the file system refuses RWF_NOWAIT: {e}")
    assert file.resident(0, 300_000)
    assert file.resident(1, 299_999)
    assert file.resident(299_999, 1)


@pytest.mark.usefixtures("asked")
def test_pages_that_were_dropped_are_not_resident(tmp_path: Path) -> None:
    path, size, gap = tmp_path / "a", 1 << 20, 512 * 1024
    file = RealDisk().open(str(path))
    if not hasattr(os, "RWF_NOWAIT"):
        assert not file.resident(0, 1)
        return
    for position in range(0, size, mmap.PAGESIZE):  # one page at a time: a folio is dropped whole
        file.pwrite(bytes(mmap.PAGESIZE), position)
    for position, length in ((0, size), (gap - 100_000, 100_001)):  # of this, the last byte alone
        drop_pages(path, gap, 128 * 1024)
        # A read that must not wait starts to fetch the missing pages, and a fast disk delivers them
        # at once.
        assert not file.resident(position, length) or in_memory(path, gap)
        assert len(file.pread(size, 0)) == size
    drop_pages(path, gap, 128 * 1024)
    assert file.resident(0, gap)
    assert len(file.pread(size, 0)) == size
    assert file.resident(0, size)


class SlowKernel:
    """Reads that must not wait, on a disk that never has a page at once: `missing` are those that
    the page cache lacks."""

    def __init__(self, *missing: int) -> None:
        self.missing = missing
        self._preadv = os.preadv

    def preadv(self, fd: int, buffers: Sequence[Any], position: int, flags: int = 0) -> int:
        if not flags & os.RWF_NOWAIT:
            return self._preadv(fd, buffers, position, flags)
        [buffer] = buffers
        last = position + len(buffer) - 1
        ahead = [p * mmap.PAGESIZE for p in self.missing if (p + 1) * mmap.PAGESIZE > position]
        until = min([start for start in ahead if start <= last], default=last + 1)
        if until <= position:
            raise BlockingIOError
        return self._preadv(fd, [memoryview(buffer)[: until - position]], position)


@pytest.fixture
def slow_kernel(monkeypatch: pytest.MonkeyPatch) -> SlowKernel:
    kernel = SlowKernel()
    monkeypatch.setattr(page_cache, "_cached_pages", lambda: None)
    monkeypatch.setattr(os, "preadv", kernel.preadv)
    return kernel


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="no RWF_NOWAIT on this platform")
def test_pages_that_the_kernel_would_have_to_wait_for_are_not_resident(
    tmp_path: Path, slow_kernel: SlowKernel
) -> None:
    file = RealDisk().open(f"{tmp_path}/a")
    file.pwrite(bytes(1 << 20), 0)
    gap = 128 * mmap.PAGESIZE
    slow_kernel.missing = tuple(range(128, 160))
    assert not file.resident(0, 1 << 20)
    assert not file.resident(gap - 100_000, 100_001), "the last byte is missing, no more"
    assert file.resident(0, gap)
    slow_kernel.missing = ()
    assert file.resident(0, 1 << 20)


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="no RWF_NOWAIT on this platform")
def test_a_non_blocking_read_takes_only_what_is_resident(
    tmp_path: Path, slow_kernel: SlowKernel
) -> None:
    content = bytes(range(256)) * 4096
    file = RealDisk().open(f"{tmp_path}/a")
    file.pwrite(content, 0)
    reads.non_blocking = True
    try:
        assert file.pread(300, 10) == content[10:310]
        assert file.pread(100, len(content) - 50) == content[-50:], "up to the end"
        slow_kernel.missing = (1,)
        assert file.pread(300, 10) == content[10:310]
        for position in (mmap.PAGESIZE - 10, mmap.PAGESIZE + 10):
            with pytest.raises(WouldBlock):
                file.pread(300, position)
    finally:
        reads.non_blocking = False
    assert file.pread(300, mmap.PAGESIZE - 10) == content[mmap.PAGESIZE - 10 :][:300]


# --- the memory disk's faults ---


def synced_file(disk: MemoryDisk) -> None:
    disk.make("/d")
    disk.sync_dir("")
    file = disk.open("/d/a")
    file.pwrite(b"durable", 0)
    file.sync()
    disk.sync_dir("/d")


@pytest.mark.parametrize(
    ("keep", "zeroed", "left"),
    [
        (0, False, b"durable"),
        (3, False, b"durable and"[:10]),
        (100, False, b"durable and not"),
        (3, True, b"durable an\0\0\0\0\0"),
    ],
)
def test_a_crash_loses_what_was_not_synced(keep: int, zeroed: bool, left: bytes) -> None:
    disk = MemoryDisk()
    synced_file(disk)
    file = disk.open("/d/a")
    file.pwrite(b" and", 7)
    file.pwrite(b" not", 11)
    assert disk.unsynced_bytes("/d/a") == 8
    disk.crash(keep, zeroed=zeroed)
    assert disk.read("/d/a") == left
    assert disk.used_bytes == len(left)
    with pytest.raises(OSError):
        file.pread(1, 0)


def test_a_crash_takes_back_overwrites_and_truncations() -> None:
    disk = MemoryDisk()
    synced_file(disk)
    file = disk.open("/d/a")
    file.truncate(3)
    file.pwrite(b"XXXXXXXX", 1)
    file.truncate(5)
    disk.crash()
    assert disk.read("/d/a") == b"durable"


def test_a_crash_loses_names_that_were_not_synced_unless_told() -> None:
    outcomes: dict[Literal["lost", "kept"], list[str]] = {"lost": ["a"], "kept": ["b", "c"]}
    for names, left in outcomes.items():
        disk = MemoryDisk()
        synced_file(disk)
        disk.rename("/d/a", "/d/b")
        disk.open("/d/c").pwrite(b"1", 0)
        disk.crash(names=names)
        assert list(disk.list("/d")) == left


def test_a_replaced_file_is_old_or_new_after_a_crash() -> None:
    disk = MemoryDisk()
    disk.make("/d")
    disk.sync_dir("")
    disk.write("/d/a", b"old")
    disk.write("/d/a", b"new")
    disk.crash()
    assert disk.read("/d/a") == b"new"
    disk.write("/d/a", b"newer", sync=False)
    disk.crash()
    assert disk.read("/d/a") == b"new"


def test_a_full_disk_refuses_and_changes_nothing() -> None:
    disk = MemoryDisk(bytes_max=10)
    file = disk.open("/a")
    file.pwrite(b"12345678", 0)
    with pytest.raises(OSError) as raised:
        file.pwrite(b"1234", 8)
    assert raised.value.errno == errno.ENOSPC
    assert file.size() == 8
    file.pwrite(b"ab", 8)
    file.truncate(0)
    file.pwrite(b"0123456789", 0)
    disk.remove("/a")
    assert disk.used_bytes == 0


def test_the_next_write_and_sync_fail_as_told() -> None:
    disk = MemoryDisk()
    file = disk.open("/a.log")
    disk.fail_next("write", errno.EIO, suffix=".log", after_bytes=2)
    disk.fail_next("sync", errno.EIO)
    disk.open("/b").pwrite(b"other", 0)
    with pytest.raises(OSError):
        file.pwrite(b"torn", 0)
    assert disk.read("/a.log") == b"to"
    file.pwrite(b"torn", 0)
    with pytest.raises(OSError):
        file.sync()
    file.sync()
    disk.fail_next("sync", times=2)
    disk.heal()
    file.sync()


def test_locks_die_with_the_crash() -> None:
    disk = MemoryDisk()
    disk.lock("/.lock", "first")
    disk.crash()
    disk.lock("/.lock", "second")
