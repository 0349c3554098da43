"""The power fails at every change that a history makes to the disk. Afterwards exactly the promised
records are there.

A seed determines a history: appends, flushes, rolls, retention, truncations, and the checkpoints
that the log's owner writes. The history runs repeatedly, each time one operation of the disk
further, and then the log directory is opened as at a start.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from log.cutting import CuttingDisk, cut_everywhere
from log.support import NOW, TOPIC_ID, TP, headers_of, make_batch

from pk.core.log.config import LogConfig
from pk.core.log.log import Log
from pk.core.log.log_dirs import LogDirs
from pk.core.record.batch import read_header

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, segment_index_bytes=600)


class Reported:
    """The records that the log's owner promised, and those that the log may also hold."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, int]] = []
        """(base offset, next offset, value size) of what the log held when all went well."""
        self.promised = 0
        self.promised_start = 0
        self.start_max = 0


def open_dirs(disk: CuttingDisk) -> LogDirs:
    return LogDirs.open(
        disk, ["/d"], cluster_id="c", node_id=1, holder="h", new_id=lambda: bytes(range(16))
    )


def run(disk: CuttingDisk, seed: int, reported: Reported) -> None:
    """One history, in a directory of its own. Notes a promise only once it was kept."""
    random = Random(seed)
    dirs = open_dirs(disk)
    log = dirs.open_log(TP, TOPIC_ID, CONFIG, NOW)
    for _ in range(random.randrange(5, 18)):
        what = random.choice(["append"] * 5 + ["flush", "flush", "roll", "retain", "cut", "note"])
        if what == "append":
            append(log, reported, random)
        elif what == "flush":
            end = log.state.log_end_offset
            log.durability.flush()
            reported.promised = end
        elif what == "roll":
            log.segments.roll(NOW)
        elif what == "retain":
            start = random.randint(log.state.log_start_offset, log.state.log_end_offset)
            reported.start_max = max(reported.start_max, start)
            log.segments.delete_before(start)
            log.segments.remove_deleted()
        elif what == "cut":
            cut(dirs, log, reported, random)
        else:
            start = log.state.log_start_offset
            dirs.write_recovery_points()
            dirs.write_log_start_offsets()
            reported.promised_start = start


def append(log: Log, reported: Reported, random: Random) -> None:
    count, size, base = random.randint(1, 3), random.randint(1, 90), log.state.log_end_offset
    batch = make_batch(count, size=size)
    reported.batches.append((base, base + count, size))
    log.appender.append_as_leader(batch, read_header(batch), 0, NOW)


def cut(dirs: LogDirs, log: Log, reported: Reported, random: Random) -> None:
    """Truncate as a follower does. From now on only the records below the new end count as
    promised."""
    to = random.randint(
        max(log.state.log_start_offset, log.state.log_end_offset - 4), log.state.log_end_offset
    )
    kept = [b for b in reported.batches if b[1] <= to]
    end = kept[-1][1] if kept else 0  # a batch that is cut into goes whole
    reported.promised = min(reported.promised, end)
    reported.promised_start = min(reported.promised_start, end)
    log.segments.truncate_to(to)
    reported.batches = kept
    dirs.write_recovery_points()
    dirs.write_log_start_offsets()
    reported.start_max = min(reported.start_max, log.state.log_start_offset)


def check(disk: CuttingDisk, reported: Reported) -> None:
    dirs = open_dirs(disk)
    log = dirs.open_log(TP, TOPIC_ID, CONFIG, NOW)
    assert log.state.log_end_offset >= reported.promised, "what was synced is there"
    assert log.state.log_start_offset >= reported.promised_start, "what was dropped stays away"
    assert log.state.log_start_offset <= reported.start_max, "nothing was dropped unasked"
    headers = headers_of(log)
    assert all(a.next_offset == b.base_offset for a, b in pairwise(headers))
    if log.state.log_start_offset < log.state.log_end_offset:
        assert headers[0].base_offset <= log.state.log_start_offset
    if headers:
        assert headers[-1].next_offset == log.state.log_end_offset
    names = disk.list(f"/d/{TP}")
    assert not [n for n in names if n.endswith((".deleted", ".tmp", ".swap", ".cleaned"))]
    base = log.state.log_end_offset
    batch = make_batch(2)
    assert log.appender.append_as_leader(batch, read_header(batch), 0, NOW).base_offset == base
    assert log.reader.read(base, 1 << 20, log.state.log_end_offset).length == len(batch)
    log.close()


def everywhere(seed: int) -> int:
    """How many operations the history has, or a few more."""
    return cut_everywhere(seed, Reported, run, check)[0]


@pytest.mark.parametrize("seed", range(12))
def test_the_power_goes_at_every_operation(seed: int) -> None:
    assert everywhere(seed) > 10


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_the_power_goes_at_every_operation_of_many_histories(chunk: int) -> None:
    for seed in range(100 + chunk * 100, 200 + chunk * 100):
        everywhere(seed)
