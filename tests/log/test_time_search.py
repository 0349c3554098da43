"""Lookups by time when a bit of a time index is flipped: right all the same, and the index is
mended."""

from log.support import NOW, PATH, append, make_batch, open_log

from pk.core.log.config import LogConfig
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryDisk

CONFIG = LogConfig(index_interval_bytes=0)
TIMES = [5, 3, 9, 20, 14, 40, 39, 41]
"""The times of the batches in each of two equal segments, out of order. A third segment is
active."""
BATCHES = 2 * len(TIMES)
NAME = f"{PATH}/{0:020d}.timeindex"


def written(disk: MemoryDisk) -> None:
    log = open_log(disk, config=CONFIG)
    for later in (0, 100):
        for time in TIMES:
            append(log, make_batch(2, timestamp=NOW + later + time), now_ms=NOW + 200)
        log.segments.roll(NOW)
    append(log, make_batch(timestamp=NOW + 60), now_ms=NOW + 200)
    log.close()


def reopened(disk: MemoryDisk) -> Log:
    return open_log(disk, config=CONFIG, clean=True, recovery_point=2 * BATCHES + 1)


def by_time(time: int) -> int:
    """The offset of the first record that is not earlier."""
    all_times = [*TIMES, *(100 + t for t in TIMES)]
    return 2 * next(i for i, t in enumerate(all_times) if t >= time)


def overwrite(disk: MemoryDisk, data: bytes) -> None:
    disk.open(NAME).pwrite(data, 0)


def test_a_flipped_bit_in_a_time_index_sends_no_reader_past_a_record() -> None:
    disk = MemoryDisk()
    written(disk)
    right = disk.read(NAME)
    assert len(right) == 5 * 12
    mended = 0
    for bit in range(8 * len(right)):
        wrong = bytearray(right)
        wrong[bit // 8] ^= 1 << bit % 8
        for time in (4, 40):
            overwrite(disk, bytes(wrong))
            log = reopened(disk)
            found = log.reader.offset_for_time(NOW + time)
            assert found is not None and found.offset == by_time(time), (bit, time)
            mended += disk.read(NAME) != wrong
        overwrite(disk, bytes(wrong))
        latest = reopened(disk).reader.max_timestamp()
        assert latest is not None and latest.timestamp == NOW + 141, bit
    assert mended > 4 * len(right), "what is found wrong is made again"


def test_a_time_index_is_left_alone_where_the_log_is_damaged() -> None:
    disk = MemoryDisk()
    written(disk)
    right, log = disk.read(NAME), reopened(disk)
    place = log.state.segments[0].locate(6)
    assert place is not None
    timestamp_at = place.position + 35  # the latest time of the batch, which its CRC covers
    low = log.state.segments[0].file.pread(8, timestamp_at)
    log.state.segments[0].file.pwrite(bytes([*low[:-1], low[-1] ^ 1]), timestamp_at)
    assert reopened(disk).reader.offset_for_time(NOW + 4) is not None
    log = reopened(disk)
    log.reader.offset_for_time(NOW + 10)
    assert disk.read(NAME) == right
