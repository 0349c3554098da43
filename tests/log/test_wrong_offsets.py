"""Offsets in the headers of batches that cannot be. No CRC covers them: a flipped bit is found by
what lies around it, or by what a segment can hold."""

from struct import Struct

import pytest
from log.compaction.support import ALWAYS, put, small_log
from log.support import NOW, append, make_batch, open_log

from pk.core.log.compaction.compact import clean
from pk.core.log.compaction.job import cleanable, make_job
from pk.core.log.config import LogConfig
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.batch import CorruptBatch

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)
OFFSET = Struct(">q")
FAR = 1 << 40
END = 30


def written(disk: MemoryDisk) -> Log:
    log = open_log(disk, config=CONFIG)
    for i in range(END):
        append(log, make_batch(timestamp=NOW + i, size=40))
    log.close()
    assert len(log.state.segments) > 3
    return log


def displace(disk: MemoryDisk, log: Log, number: int, offset: int, batch: int = 2) -> int:
    """Give a batch of a segment another base offset; which it had."""
    segment = log.state.segments[number]
    position, header = list(segment.headers())[batch]
    disk.open(segment.file.path).pwrite(OFFSET.pack(header.base_offset + offset), position)
    return header.base_offset


def test_an_index_that_is_rebuilt_skips_it() -> None:
    disk = MemoryDisk()
    log = written(disk)
    at = displace(disk, log, 1, FAR, batch=-1)
    for segment in log.state.segments:
        disk.remove(segment.index.file.path)
    log = open_log(disk, config=CONFIG, clean=True, recovery_point=END)
    assert log.reader.offset_for_time(NOW + at - 1) == (at - 1, NOW + at - 1, 0)
    assert log.reader.max_timestamp() == (END - 1, NOW + END - 1, 0)
    following = log.state.segments[2].base_offset
    assert log.reader.read(at - 1, 1, END).base_offset == at - 1
    assert log.reader.read(following, 1, END).base_offset == following
    with pytest.raises(CorruptBatch):
        log.reader.read(at, 1, END)


@pytest.mark.parametrize(("number", "offset"), [(1, FAR), (1, 1000), (-1, FAR)])
def test_a_log_that_was_not_closed_ends_before_it(number: int, offset: int) -> None:
    disk = MemoryDisk()
    log = written(disk)
    at = displace(disk, log, number, offset)
    log = open_log(disk, config=CONFIG)
    assert log.state.log_end_offset == at
    assert append(log).base_offset == at
    assert log.reader.read(at, 1, at + 1).base_offset == at


@pytest.mark.parametrize("offset", [FAR, 1000, -2])
def test_what_is_compacted_has_none(offset: int) -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    for i in range(6):
        put(log, ("a", str(i)), ("b", str(i)))
    log.segments.roll(NOW)
    put(log, ("c", "1"))
    displace(disk, log, 0, offset)
    found = cleanable(log, ALWAYS, log.state.log_end_offset, NOW)
    assert found is not None
    with pytest.raises(CorruptBatch):
        list(clean(disk, make_job(log, found, ALWAYS, NOW, keys_max=1000)))
