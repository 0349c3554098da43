"""What a lookup reads, what opening reads, and what may go on at once."""

import threading
from collections.abc import Callable
from pathlib import Path

from log.support import NOW, append, headers_of, make_batch, open_log

from pk.core.errors import KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.memory_disk import MemoryFile
from pk.core.record.batch import iter_headers


class CountingFile(MemoryFile):
    """Adds up what is read of it."""

    __slots__ = ()

    def pread(self, length: int, position: int) -> bytes:
        data = super().pread(length, position)
        assert isinstance(self._disk, CountingDisk)
        self._disk.bytes_read += len(data)
        return data


class CountingDisk(MemoryDisk):
    """A memory disk that adds up what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def open(self, path: str) -> CountingFile:
        return CountingFile(self, path)

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self.bytes_read += len(data)
        return data


CONFIG = LogConfig(segment_bytes=4 << 20)


def large_log(disk: CountingDisk) -> int:
    """A closed log of 20 MB in five segments; its end."""
    log = open_log(disk, config=CONFIG)
    for i in range(20_000):
        append(log, make_batch(timestamp=NOW + 10 * i, size=950), now_ms=NOW + 10 * i)
    log.close()
    assert len(log.segments) == 5
    return log.log_end_offset


def test_opening_reads_nothing_and_lookups_read_kilobytes() -> None:
    disk = CountingDisk()
    end = large_log(disk)
    disk.bytes_read = 0
    log = open_log(disk, config=CONFIG, clean=True, recovery_point=end)
    assert log.log_end_offset == end
    assert disk.bytes_read == 0, "a clean start reads no log"
    assert log.last_stable_offset(end) == end
    assert log.end_offset_for_epoch(0) == (0, end)
    assert disk.bytes_read < 100
    for wanted in (0, 1, 4711, 12_345, end - 1):
        disk.bytes_read = 0
        assert log.offset_for_time(NOW + 10 * wanted - 3) == (wanted, NOW + 10 * wanted, 0)
        assert disk.bytes_read < 64 << 10
        disk.bytes_read = 0
        fetched = log.read(wanted, 1, end)
        assert fetched.base_offset == wanted
        assert disk.bytes_read < 32 << 10
    disk.bytes_read = 0
    assert log.max_timestamp() == (end - 1, NOW + 10 * (end - 1), 0)
    assert disk.bytes_read < 32 << 10


def test_reading_at_the_tail_needs_no_io_to_find_its_place() -> None:
    disk = CountingDisk()
    log = open_log(disk, config=CONFIG)
    for _ in range(100):
        append(log)
    disk.bytes_read = 0
    fetched = log.read(99, 1 << 20, 100)
    assert fetched.length == len(make_batch()) == disk.bytes_read


def test_flushes_and_reads_in_threads_while_the_log_grows(tmp_path: Path) -> None:
    log = open_log(
        RealDisk(),
        path=f"{tmp_path}/t-0",
        config=LogConfig(segment_bytes=20_000, index_interval_bytes=0),
    )
    failures: list[BaseException] = []
    done = threading.Event()
    flushed = threading.Event()

    def flush() -> None:
        while not done.is_set():
            log.flush()
            if log.recovery_point > 500:
                flushed.set()

    def read() -> None:
        offset = 0
        while not done.is_set():
            end = log.log_end_offset
            if offset >= end:
                offset = 0
                continue
            fetched = log.read(offset, 3000, end)
            found = [header for _, header in iter_headers(fetched.slice.read())]
            assert found[0].base_offset == offset
            assert found[-1].next_offset <= end
            offset = found[-1].next_offset
            assert log.offset_for_time(NOW + offset - 1) == (offset - 1, NOW + offset - 1, 0)

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except (AssertionError, OSError, KafkaError, LookupError, BufferError) as e:
            failures.append(e)
            flushed.set()

    threads = [
        threading.Thread(target=guarded, args=(work,)) for work in (flush, flush, read, read)
    ]
    for thread in threads:
        thread.start()
    appended = 0
    while appended < 3000 or not flushed.is_set():
        append(log, make_batch(timestamp=NOW + appended, size=10))
        appended += 1
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert log.log_end_offset == appended
    log.close()
    assert log.recovery_point == appended
    again = open_log(RealDisk(), path=f"{tmp_path}/t-0")
    assert again.recovered is not None and again.recovered.bytes_cut == 0
    assert len(headers_of(again)) == appended
