"""The records that retention deletes: by age, by size, by the log's start; never above the high
watermark."""

import pytest
from log.support import NOW, append, make_batch, open_log

from pk.core.log import retention
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk
from pk.core.log.log import Log
from pk.core.log.retention import Retention

FOREVER = Retention(-1, -1)


def log_of(timestamps: list[int], disk: MemoryDisk | None = None) -> Log:
    """A log with one segment a timestamp, of one record each; the last is active."""
    log = open_log(disk)
    for i, timestamp in enumerate(timestamps):
        if i:
            log.segments.roll(NOW)
        append(log, make_batch(timestamp=timestamp))
    return log


def start(log: Log, wanted: Retention | None, high_watermark: int = 1 << 40) -> int | None:
    return retention.start_offset(log, wanted, high_watermark, NOW)


@pytest.mark.parametrize(
    "retention_ms, expected",
    [(-1, None), (5000, None), (3000, None), (2999, 1), (1999, 2), (999, 3), (0, 4)],
)
def test_by_age_from_the_front(retention_ms: int, expected: int | None) -> None:
    log = log_of([NOW - 3000, NOW - 2000, NOW - 1000, NOW - 1])
    assert start(log, Retention(retention_ms, -1)) == expected


def test_the_latest_time_in_a_segment_counts_and_an_old_one_behind_a_young_one_stays() -> None:
    log = log_of([NOW - 3000, NOW, NOW - 9000, NOW])
    append(log, make_batch(timestamp=NOW - 9000))
    assert start(log, Retention(1000, -1)) == 1
    first = open_log()
    append(first, make_batch(timestamps=[NOW - 9000, NOW, NOW - 9000]))
    first.segments.roll(NOW)
    assert start(first, Retention(1000, -1)) is None


def test_without_timestamps_the_time_of_the_last_write_counts() -> None:
    log = log_of([-1, -1])
    assert start(log, Retention(1000, -1)) is None
    log.state.segments[0].modified_ms = NOW - 1001
    assert start(log, Retention(1000, -1)) == 1, "and the one that is written to stays"


def test_by_size_only_whole_segments_that_are_too_much() -> None:
    log = log_of([NOW] * 4)
    size = log.state.segments[0].size
    for bytes_max, expected in [
        (4 * size, None),
        (3 * size + 1, None),
        (3 * size, 1),
        (2 * size - 1, 2),
        (0, 4),
    ]:
        assert start(log, Retention(-1, bytes_max)) == expected


def test_not_above_the_high_watermark() -> None:
    log = log_of([NOW - 9000] * 4)
    assert [start(log, Retention(0, 0), hw) for hw in range(5)] == [None, 1, 2, 3, 4]


def test_what_lies_before_the_start_goes_even_where_the_log_is_only_compacted() -> None:
    disk = MemoryDisk()
    log = log_of([NOW - 9000] * 4, disk)
    assert start(log, None) is None
    log.close()
    log = open_log(disk, clean=True, recovery_point=4, log_start_offset=2)
    assert [s.base_offset for s in log.state.segments] == [0, 1, 2, 3]
    assert start(log, None) == 2 == start(log, FOREVER)
    assert log.segments.delete_before(2) == 2
    assert [s.base_offset for s in log.state.segments] == [2, 3]
    assert start(log, None) is None


def test_an_empty_log_keeps_its_segment() -> None:
    log = open_log()
    assert start(log, Retention(0, 0)) is None
    append(log, make_batch(timestamp=NOW - 9000))
    due = start(log, Retention(0, 0))
    assert due == 1
    log.segments.roll(NOW)
    assert log.segments.delete_before(due) == 1
    assert (log.state.log_start_offset, log.state.log_end_offset, log.state.size) == (1, 1, 0)
    assert start(log, Retention(0, 0)) is None
    assert append(log).base_offset == 1


def test_roll_by_age_is_of_the_config() -> None:
    log = open_log(config=LogConfig(segment_ms=1000))
    append(log, make_batch(timestamp=NOW - 2000))
    assert append(log, make_batch(timestamp=NOW)).rolled
