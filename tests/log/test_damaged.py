"""A torn end is what a crash leaves; everything else is damage, which a log says of itself until it
is in sync again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from each import for_each
from log.support import NOW, append, make_batch
from log.test_log_dirs import open_dirs

from pk.core.log.config import LogConfig
from pk.core.log.damaged import KEPT, MARK, Damage, kept_files
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.batch import iter_headers
from pk.core.values import TopicPartition

TP, TOPIC_ID = TopicPartition("t", 0), b"t" * 16
CONFIG = LogConfig(segment_bytes=1000)
PATH = "/data/t-0"
RECORDS = 12
"""A full segment has five of them."""


def segment(base: int, suffix: str = ".log") -> str:
    return f"{PATH}/{base:020d}{suffix}"


def crashed(*, flushed: bool = False) -> MemoryDisk:
    """A disk whose broker was killed with `RECORDS` records in the log, all committed."""
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(TP, TOPIC_ID, CONFIG, NOW)
    for i in range(RECORDS):
        append(log, make_batch(timestamp=NOW + i, size=100), epoch=i // 4)
    if flushed:
        log.durability.flush(force=True)
        dirs.write_recovery_points()
    dirs.write_high_watermarks({TP: RECORDS})
    dirs.release()
    return disk


def reopened(disk: MemoryDisk, *, expected: bool = False, topic_id: bytes = TOPIC_ID) -> Log:
    dirs = open_dirs(disk)
    log = dirs.open_log(TP, topic_id, CONFIG, NOW, expected=expected)
    dirs.release()
    return log


def batch(disk: MemoryDisk, number: int) -> tuple[str, int]:
    """The file and position of batch `number`."""
    base = number - number % 5
    file = disk.open(segment(base))
    positions = [at for at, _ in iter_headers(file.pread(file.size(), 0))]
    return segment(base), positions[number - base]


def flip(number: int, at: int, bit: int = 0) -> Callable[[MemoryDisk], None]:
    """One bit of a batch is another."""

    def change(disk: MemoryDisk) -> None:
        path, position = batch(disk, number)
        file = disk.open(path)
        file.pwrite(bytes([file.pread(1, position + at)[0] ^ (1 << bit)]), position + at)

    return change


def lose_compacted(disk: MemoryDisk) -> None:
    """The log of the first segment is gone, and the files that compaction replaced are still
    there."""
    for suffix in (".log", ".index", ".timeindex"):
        disk.write(segment(0, f"{suffix}.deleted"), disk.read(segment(0, suffix)))
    disk.write(segment(0, ".txnindex"), b"")
    disk.remove(segment(0))


def cut_end(disk: MemoryDisk) -> None:
    path, position = batch(disk, RECORDS - 1)
    disk.open(path).truncate(position + 7)


HARMS: dict[str, tuple[Callable[[MemoryDisk], object], Damage, int]] = {
    "a flipped bit": (flip(6, 80), Damage.CORRUPT, 6),
    "a flipped bit of an offset": (flip(6, 5), Damage.CORRUPT, 6),
    "a flipped bit of a leader epoch": (flip(6, 13), Damage.CORRUPT, 6),
    "a flipped bit that makes a leader epoch less": (flip(9, 15, 1), Damage.CORRUPT, 9),
    "a flipped bit that makes a leader epoch negative": (flip(11, 12, 7), Damage.SHORT, 11),
    "a flipped bit of the last offset": (flip(11, 5), Damage.CORRUPT, 11),
    "a segment torn in its middle": (
        lambda disk: disk.open(segment(5)).truncate(300),
        Damage.CORRUPT,
        6,
    ),
    "a segment is gone": (
        lambda disk: [disk.remove(segment(5, s)) for s in (".log", ".index", ".timeindex")],
        Damage.MISSING_FILE,
        5,
    ),
    "the log of a segment is gone": (
        lambda disk: disk.remove(segment(5)),
        Damage.MISSING_FILE,
        5,
    ),
    "the log of the first segment is gone": (
        lambda disk: disk.remove(segment(0)),
        Damage.MISSING_FILE,
        0,
    ),
    "the log of a compacted first segment is gone": (lose_compacted, Damage.MISSING_FILE, 0),
    "the end is torn below what was committed": (cut_end, Damage.SHORT, 11),
    "the directory is empty": (
        lambda disk: [disk.remove(f"{PATH}/{name}") for name in disk.list(PATH)],
        Damage.MISSING,
        0,
    ),
    "the directory is gone": (lambda disk: disk.remove_tree(PATH), Damage.MISSING, 0),
    "the disk is another": (lambda disk: disk.remove_tree("/data"), Damage.MISSING, 0),
}


def _recovered() -> list[tuple[str, bool]]:
    """Each harm, before and after a sync. Recovery does not read synced data again, so it does not
    find a flipped bit there, except in the last segment."""
    return [
        (harm, flushed)
        for harm, (_, damage, end) in HARMS.items()
        for flushed in (False, True)
        if not (flushed and damage is Damage.CORRUPT and end < 10)
    ]


@for_each(("harm", "flushed"), _recovered())
def test_a_damaged_log_says_what_is_wrong_until_it_is_in_sync(harm: str, flushed: bool) -> None:
    change, damage, end = HARMS[harm]
    disk = crashed(flushed=flushed)
    if flushed and damage is Damage.CORRUPT:
        end = 11
    change(disk)
    log = reopened(disk, expected=True)
    assert log.mark is not None and (log.mark.damage, log.state.log_end_offset) == (damage, end)
    assert log.mark.end_offset == end
    again = reopened(disk, expected=True)
    assert again.mark == log.mark, "a restart does not make it whole"
    assert again.state.log_end_offset == end
    again.clear_mark()
    assert again.mark is None and not disk.exists(f"{PATH}/{MARK}")
    assert kept_files(disk, PATH) == {}
    disk.write("/data/replication-offset-checkpoint", b"0\n0\n")  # written for the log as it is now
    assert reopened(disk, expected=True).mark is None


def test_what_is_cut_off_is_kept_byte_for_byte() -> None:
    disk = crashed()
    whole = {base: disk.read(segment(base)) for base in (0, 5, 10)}
    flip(6, 80)(disk)
    path, position = batch(disk, 7)
    flipped = disk.read(segment(5))
    log = reopened(disk)
    assert log.state.log_end_offset == 6
    first = batch_end(whole[5], 6)
    assert disk.read(segment(5) + KEPT) == flipped[first:]
    assert whole[5][first:][: position - first] != flipped[first:position]
    assert disk.read(segment(10) + KEPT) == whole[10]
    assert log.kept_bytes == len(whole[5]) - first + len(whole[10])
    assert path == segment(5)


def batch_end(data: bytes, offset: int) -> int:
    """The position at which the batch of `offset` begins."""
    return next(at for at, header in iter_headers(data) if header.base_offset == offset)


@pytest.mark.parametrize("suffix", [".deleted", ".1.deleted"])
def test_a_crash_while_a_segment_is_dropped_is_no_damage(suffix: str) -> None:
    """Its log is renamed before its indexes; compaction may have replaced it before."""
    disk = crashed()
    for older in (".log", ".index", ".timeindex") if suffix != ".deleted" else ():
        disk.write(segment(0, f"{older}.deleted"), disk.read(segment(0, older)))
    disk.rename(segment(0), segment(0, f".log{suffix}"))
    log = reopened(disk, expected=True)
    assert log.mark is None
    assert (log.state.log_start_offset, log.state.log_end_offset) == (5, RECORDS)


def test_a_torn_end_is_no_damage() -> None:
    disk = crashed()
    disk.remove("/data/replication-offset-checkpoint")
    cut_end(disk)
    log = reopened(disk)
    assert (log.state.log_end_offset, log.mark, kept_files(disk, PATH)) == (RECORDS - 1, None, {})


def test_a_batch_of_zeros_behind_is_a_torn_end() -> None:
    """A file system may leave zeros in blocks that it allocated but did not write."""
    disk = crashed()
    disk.remove("/data/replication-offset-checkpoint")
    path, position = batch(disk, RECORDS - 1)
    file = disk.open(path)
    file.pwrite(bytes(file.size() + 5000 - position), position)
    assert reopened(disk).mark is None


def test_a_leader_that_changes_is_not_taken_for_damage() -> None:
    disk = crashed()
    log = reopened(disk)
    assert log.mark is None
    assert [e.epoch for e in log.state.epochs.entries] == [0, 1, 2]


def test_a_new_log_of_another_topic_is_no_damage_and_an_expected_one_is() -> None:
    assert reopened(crashed(), topic_id=b"u" * 16).mark is None
    mark = reopened(crashed(), topic_id=b"u" * 16, expected=True).mark
    assert mark is not None and mark.damage is Damage.FOREIGN


def test_where_there_is_no_room_to_keep_anything_the_log_opens_all_the_same() -> None:
    disk = crashed()
    flip(6, 80)(disk)
    disk.fail_next("write", suffix=f".log{KEPT}")
    log = reopened(disk)
    assert log.state.log_end_offset == 6 and log.mark is not None


def test_a_mark_that_cannot_be_read_says_that_something_is_wrong() -> None:
    disk = crashed()
    disk.write(f"{PATH}/{MARK}", b"?")
    mark = reopened(disk).mark
    assert mark is not None and mark.damage is Damage.CORRUPT


def test_a_closed_log_keeps_its_mark() -> None:
    disk = crashed()
    flip(6, 80)(disk)
    dirs = open_dirs(disk)
    dirs.open_log(TP, TOPIC_ID, CONFIG, NOW)
    dirs.close({TP: 6})
    mark = open_dirs(disk).open_log(TP, TOPIC_ID, CONFIG, NOW).mark
    assert mark is not None and mark.damage is Damage.CORRUPT


@for_each("byte", range(0, 1400, 7))
def test_wherever_a_bit_flips_no_log_claims_more_than_it_has(byte: int) -> None:
    """Each remaining record is as it was written, with its offset and epoch."""
    disk = crashed()
    whole = {}
    for base in (0, 5, 10):
        data = disk.read(segment(base))
        for at, header in iter_headers(data):
            whole[header.base_offset] = data[at : at + header.size]
    sizes = {base: len(disk.read(segment(base))) for base in (0, 5, 10)}
    base = 0
    while byte >= sizes[base]:
        byte -= sizes[base]
        base += 5
        if base > 10:
            return
    file = disk.open(segment(base))
    file.pwrite(bytes([file.pread(1, byte)[0] ^ 0x20]), byte)
    log = reopened(disk)
    if log.state.log_end_offset < RECORDS:
        assert log.mark is not None, "it was committed"
    assert log.state.log_end_offset <= RECORDS
    for offset in range(log.state.log_end_offset):
        assert log.reader.read_bytes(offset, 1, log.state.log_end_offset) == whole[offset]
