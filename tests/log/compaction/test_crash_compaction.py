"""The power fails at every change that a compacted log's history makes to the disk, including its
checkpoints.

This is test_crash_everywhere.py with keys: appends, rolls, truncations, retention, and rounds of
compaction as the cleaner does them. After the next start, every key's last value must be there.
Below the offset in `cleaner-offset-checkpoint` no key may be there twice, since the next round
would never see the outdated record.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from log.compaction.support import SMALL, Write, compact, keyed, records_of
from log.cutting import CuttingDisk, cut_everywhere
from log.support import NOW, TOPIC_ID, TP
from log.test_crash_everywhere import open_dirs

from pk.core.log.compaction.job import first_dirty_offset
from pk.core.log.log import Log
from pk.core.log.log_dirs import LogDirs
from pk.core.record.batch import read_header

KEYS = [b"a", b"b", b"c", b"d", b"a long key that is hashed"]


class Reported:
    """The records that were written, and how many of them were promised to be durable."""

    def __init__(self) -> None:
        self.written: list[tuple[int, bytes, bytes]] = []
        """(offset, key, value)."""
        self.promised = 0
        self.start_max = 0
        self.rounds = 0


def append(log: Log, reported: Reported, random: Random) -> None:
    writes = [
        Write(random.choice(KEYS), b"%d" % random.randrange(1 << 30))
        for _ in range(random.randint(1, 3))
    ]
    base = log.state.log_end_offset
    reported.written += [(base + i, w.key, w.value or b"") for i, w in enumerate(writes)]
    batch = keyed(writes)
    log.appender.append_as_leader(batch, read_header(batch), 0, NOW)


def clean(dirs: LogDirs, log: Log, reported: Reported, random: Random) -> None:
    """A round as core/broker/upkeep/cleaner.py does it."""
    log.durability.flush()
    reported.promised = log.state.log_end_offset
    directory = dirs.directories[0]
    directory.write_recovery_points()
    if compact(log, log.state.disk, keys_max=random.choice([2, 1000])) is not None:
        reported.rounds += 1
        directory.write_cleaner_offsets()


def cut(dirs: LogDirs, log: Log, reported: Reported, random: Random) -> None:
    """A follower's cut: never below the high watermark, as compaction never goes above it."""
    floor = max(
        log.state.log_start_offset,
        log.segments.first_dirty_offset or 0,
        log.state.log_end_offset - 6,
    )
    to = random.randint(floor, log.state.log_end_offset)
    reported.promised = min(
        reported.promised, max(to - 2, 0)
    )  # a batch that is cut into goes whole
    log.segments.truncate_to(to)
    dirs.write_recovery_points()
    reported.written = [w for w in reported.written if w[0] < log.state.log_end_offset]


def run(disk: CuttingDisk, seed: int, reported: Reported) -> None:
    random = Random(seed)
    dirs = open_dirs(disk)
    log = dirs.open_log(TP, TOPIC_ID, SMALL, NOW)
    for _ in range(random.randrange(8, 22)):
        what = random.choice(["append"] * 6 + ["roll"] * 2 + ["clean"] * 2 + ["retain", "cut"])
        if what == "append":
            append(log, reported, random)
        elif what == "roll":
            log.segments.roll(NOW)
        elif what == "clean":
            clean(dirs, log, reported, random)
        elif what == "retain":
            start = random.randint(
                log.state.log_start_offset,
                min(log.state.log_start_offset + 3, log.state.log_end_offset),
            )
            reported.start_max = max(reported.start_max, start)
            log.segments.delete_before(start)
            log.segments.remove_deleted()
            dirs.write_log_start_offsets()
        else:
            cut(dirs, log, reported, random)


def check(disk: CuttingDisk, reported: Reported) -> None:
    dirs = open_dirs(disk)
    log = dirs.open_log(TP, TOPIC_ID, SMALL, NOW)
    end = log.state.log_end_offset
    assert end >= reported.promised, "what was synced is there"
    check_keys(log, reported, end)
    names = disk.list(f"/d/{TP}")
    assert not [n for n in names if n.endswith((".deleted", ".tmp", ".swap", ".cleaned"))]
    log.segments.roll(NOW)
    compact(log, disk)
    dirs.directories[0].write_cleaner_offsets()
    check_keys(log, reported, end)
    log.close()


def check_keys(log: Log, reported: Reported, end: int) -> None:
    found = records_of(log)
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets)), "in order, nothing twice"
    known = {offset: (key, value) for offset, key, value in reported.written}
    there = {record.offset: (record.key, record.value) for record in found}
    assert all(known.get(offset) == pair for offset, pair in there.items()), "nothing made up"
    last = {key: offset for offset, key, _ in reported.written if offset < end}
    for key, offset in last.items():
        assert offset in there or offset < reported.start_max, f"the last value of {key!r} is lost"
    clean_below = first_dirty_offset(log)
    times = Counter(record.key for record in found if record.offset < clean_below)
    assert set(times.values()) <= {1}, "compacted, but a key is there twice"


def everywhere(seed: int) -> tuple[int, int]:
    """How many operations the history has, or a few more, and how many rounds of compaction."""
    at, _, reported = cut_everywhere(seed, Reported, run, check)
    return at, reported.rounds


def test_the_power_goes_at_every_operation_of_a_compacted_log() -> None:
    found = [everywhere(seed) for seed in range(4)]
    assert all(places > 10 for places, _ in found)
    assert sum(rounds for _, rounds in found) >= 4, "the histories compact"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_the_power_goes_at_every_operation_of_many_compacted_logs(chunk: int) -> None:
    for seed in range(100 + chunk * 50, 150 + chunk * 50):
        everywhere(seed)
