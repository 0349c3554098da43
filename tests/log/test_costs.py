"""How much a lookup reads, how much opening reads, and which operations may run at the same
time."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from log.support import NOW, append, headers_of, make_batch, open_log

from pk.core.errors import KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryFile
from pk.core.record.batch import iter_headers
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec


class CountingFile(MemoryFile):
    """Counts the bytes that are read from it."""

    __slots__ = ()

    def pread(self, length: int, position: int) -> bytes:
        data = super().pread(length, position)
        assert isinstance(self._disk, CountingDisk)
        self._disk.bytes_read += len(data)
        return data


class CountingDisk(MemoryDisk):
    """A memory disk that counts the bytes that are read from it."""

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
    assert len(log.state.segments) == 5
    return log.state.log_end_offset


def test_opening_reads_nothing_and_lookups_read_kilobytes() -> None:
    disk = CountingDisk()
    end = large_log(disk)
    disk.bytes_read = 0
    log = open_log(disk, config=CONFIG, clean=True, recovery_point=end)
    assert log.state.log_end_offset == end
    assert disk.bytes_read == 0, "a clean start reads no log"
    assert log.state.last_stable_offset(end) == end
    assert log.state.end_offset_for_epoch(0) == (0, end)
    assert disk.bytes_read < 100
    for wanted in (0, 1, 4711, 12_345, end - 1):
        disk.bytes_read = 0
        assert log.reader.offset_for_time(NOW + 10 * wanted - 3) == (wanted, NOW + 10 * wanted, 0)
        assert disk.bytes_read < 64 << 10
        disk.bytes_read = 0
        fetched = log.reader.read(wanted, 1, end)
        assert fetched.base_offset == wanted
        assert disk.bytes_read < 32 << 10
    disk.bytes_read = 0
    assert log.reader.max_timestamp() == (end - 1, NOW + 10 * (end - 1), 0)
    assert disk.bytes_read < 32 << 10


def reopened(disk: CountingDisk, log: Log) -> Log:
    log.close()
    return open_log(
        disk, config=log.state.config, clean=True, recovery_point=log.state.log_end_offset
    )


def bytes_for_time(disk: CountingDisk, log: Log, timestamp: int, offset: int) -> int:
    """How much a lookup reads that finds the record at `offset`."""
    disk.bytes_read = 0
    found = log.reader.offset_for_time(timestamp)
    assert found is not None and found.offset == offset
    return disk.bytes_read


def test_recovery_reads_every_batch_once() -> None:
    disk = CountingDisk()
    log = open_log(disk, config=CONFIG)
    for i in range(6000):
        append(log, make_batch(timestamp=NOW + i, size=950), epoch=i // 2500)
    disk.bytes_read = 0
    again = open_log(disk, config=CONFIG)  # killed; the written data is there
    assert again.state.log_end_offset == 6000
    assert [tuple(e) for e in again.state.epochs.entries] == [(0, 0), (1, 2500), (2, 5000)]
    assert again.state.size <= disk.bytes_read < 1.02 * again.state.size


def test_recovery_reads_again_what_producers_sent() -> None:
    disk = CountingDisk()
    log = open_log(disk, config=CONFIG)
    append(log)
    append(log, make_batch(producer_id=7, producer_epoch=3, sequence=0))
    append(log)
    again = open_log(disk, config=CONFIG)
    assert [p.producer_id for p in again.state.producers] == [
        7
    ] and again.state.producers.next_offset == 3


def test_a_lookup_by_time_reads_kilobytes_where_batches_are_of_16_kb() -> None:
    disk = CountingDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=8 << 20))
    for i in range(2_000):
        times = [NOW + 100 * i + 10 * j for j in range(10)]
        append(log, make_batch(10, timestamps=times, size=1600), now_ms=NOW + 100 * i)
    log = reopened(disk, log)
    assert len(log.state.segments) == 4 and log.state.size > 32_000_000
    for offset in (0, 1, 9, 10, 4_711, 12_345, 19_999):
        bytes_for_time(disk, log, NOW + 10 * offset, offset)  # the first look checks the indexes
        assert bytes_for_time(disk, log, NOW + 10 * offset - 3, offset) < 48 << 10
        assert bytes_for_time(disk, log, NOW + 10 * offset, offset) < 48 << 10


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_lookup_by_time_reads_one_large_batch_at_most_and_that_once(codec: Codec) -> None:
    disk = CountingDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=4 << 20))
    for i in range(20):
        rows = [(NOW + 100 * i + j, b"%d" % j, os.urandom(9_000), ()) for j in range(100)]
        append(log, build_batch(rows, codec=codec), now_ms=NOW + 100 * i)
    log = reopened(disk, log)
    batch = headers_of(log)[7].size
    assert len(log.state.segments) > 4 and batch > 900_000
    for offset in (700, 750, 799):
        bytes_for_time(disk, log, NOW + offset, offset)
        read = bytes_for_time(disk, log, NOW + offset, offset)
        assert read < batch + (32 << 10)
        if codec is Codec.NONE:  # only as far as the record
            assert read < 4 * 9_100 * (offset - 700) + (64 << 10)
    disk.bytes_read = 0
    assert log.reader.max_timestamp() == (1999, NOW + 1999, 0)
    assert disk.bytes_read < batch + (32 << 10)


def test_a_lookup_by_time_skips_what_is_behind_a_record_from_the_future() -> None:
    disk = CountingDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=64 << 20))
    append(log, make_batch(timestamp=NOW + 1_000_000))
    for i in range(5_000):
        append(log, make_batch(timestamp=NOW + i, size=900))
    append(log, make_batch(timestamp=NOW + 2_000_000))
    log.segments.roll(NOW)
    log = reopened(disk, log)
    assert bytes_for_time(disk, log, NOW + 1_500_000, 5_001) < 64 << 10


def test_reading_at_the_tail_needs_no_io_to_find_its_place() -> None:
    disk = CountingDisk()
    log = open_log(disk, config=CONFIG)
    for _ in range(100):
        append(log)
    disk.bytes_read = 0
    fetched = log.reader.read(99, 1 << 20, 100)
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
            log.durability.flush()
            if log.durability.recovery_point > 500:
                flushed.set()

    def read() -> None:
        offset = 0
        while not done.is_set():
            end = log.state.log_end_offset
            if offset >= end:
                offset = 0
                continue
            fetched = log.reader.read(offset, 3000, end)
            found = [header for _, header in iter_headers(fetched.slice.read())]
            assert found[0].base_offset == offset
            assert found[-1].next_offset <= end
            offset = found[-1].next_offset
            assert log.reader.offset_for_time(NOW + offset - 1) == (offset - 1, NOW + offset - 1, 0)

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
    assert log.state.log_end_offset == appended
    log.close()
    assert log.durability.recovery_point == appended
    again = open_log(RealDisk(), path=f"{tmp_path}/t-0")
    assert again.recovered is not None and again.recovered.bytes_cut == 0
    assert len(headers_of(again)) == appended
