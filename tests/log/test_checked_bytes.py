"""Damage in the middle of a log is found when it is read, and what lies around it is served;
indexes that were removed are made again."""

from collections.abc import Callable
from pathlib import Path

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from log.support import NOW, append, make_batch, open_log

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.checked_bytes import CheckedBytes
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryFile
from pk.core.log.tools.verify import PartitionCheck
from pk.core.record.batch import CorruptBatch, iter_headers

SIZE = 60
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=100)
END = 100


@given(
    st.integers(0, SIZE),
    st.lists(
        st.tuples(
            st.sampled_from(["add", "forget", "cut"]), st.integers(0, SIZE), st.integers(0, SIZE)
        )
    ),
)
def test_what_is_known_is_never_more_than_was_checked(
    size: int, steps: list[tuple[str, int, int]]
) -> None:
    sound, known = CheckedBytes(size), set(range(size, SIZE))
    for what, a, b in steps:
        a, b = min(a, b), max(a, b)
        if what == "add" and b > a:
            sound.add(a, b)
            known |= set(range(a, b))
        elif what == "forget":
            sound.forget(a, b)
            known -= set(range(a, b))
        elif what == "cut":
            sound.cut(a)
            known |= set(range(a, SIZE))  # each append checks it
        for position in range(SIZE):
            end = sound.end(position, SIZE)
            assert set(range(position, end)) <= known
            if position in known:
                assert end > position


def written(disk: MemoryDisk) -> Log:
    """A log of a hundred batches in several segments, closed and opened again."""
    log = open_log(disk, config=CONFIG)
    for i in range(END):
        append(log, make_batch(timestamp=NOW + i, size=40))
    log.close()
    return reopened(disk)


def reopened(disk: MemoryDisk) -> Log:
    return open_log(disk, config=CONFIG, clean=True, recovery_point=END)


def read_from(log: Log, offset: int) -> list[int]:
    """Offsets of the batches that one fetch gives."""
    data = log.reader.read(offset, 1 << 20, END).slice.read()
    return [header.base_offset for _, header in iter_headers(data)]


def damage(disk: MemoryDisk, log: Log, offset: int, byte: int, value: int) -> None:
    """Change one byte of the batch at `offset`."""
    segment = next(s for s in reversed(log.state.segments) if s.base_offset <= offset)
    position = next(at for at, header in segment.headers() if header.base_offset == offset)
    disk.open(segment.file.path).pwrite(bytes([value]), position + byte)


@for_each(
    "byte, value",
    [(80, 0), (62, 0xFF), (18, 1), (22, 8), (26, 9), (35, 1), (60, 9), (16, 0), (16, 1), (11, 3)],
    ids=[
        "value",
        "record",
        "crc",
        "attributes",
        "delta",
        "time",
        "count",
        "old-magic",
        "magic",
        "length",
    ],
)
def test_a_damaged_batch_is_reported_and_the_rest_is_served(byte: int, value: int) -> None:
    disk = MemoryDisk()
    log = written(disk)
    bad = log.state.segments[2].base_offset + 3
    damage(disk, log, bad, byte, value)
    log = reopened(disk)
    seen, offset = [], 0
    while offset < END:
        try:
            found = read_from(log, offset)
        except KafkaError as e:
            assert e.code == ErrorCode.CORRUPT_MESSAGE
            assert f"{log.state.segments[2].base_offset:020d}.log at position" in str(e)
            offset += 1
            continue
        seen += [base for base in found if base >= offset]
        offset = seen[-1] + 1
    lost = set(range(END)) - set(seen)
    assert bad in lost and len(seen) == len(set(seen))
    # Behind a length or a magic that is wrong nothing is found but by the next entry of the index.
    assert lost == {bad} if byte not in (11, 16) else lost <= {bad, bad + 1, bad + 2}


def test_offsets_that_go_back_are_damage_though_no_crc_covers_them() -> None:
    disk = MemoryDisk()
    log = written(disk)
    bad = log.state.segments[2].base_offset + 3
    damage(disk, log, bad, 7, 0)
    log = reopened(disk)
    assert read_from(log, log.state.segments[2].base_offset) == [bad - 3, bad - 2, bad - 1]
    with pytest.raises(KafkaError, match="no batch that belongs there"):
        log.reader.read(bad, 1 << 20, END)


@pytest.mark.parametrize("end", [END, 40])
def test_an_offset_from_far_away_is_damage(end: int) -> None:
    disk = MemoryDisk()
    log = written(disk)
    bad = log.state.segments[2].base_offset + 3
    damage(disk, log, bad, 3, 0xFF)
    log = reopened(disk)
    assert read_from(log, bad - 1) == [bad - 1]
    with pytest.raises(KafkaError, match="no batch that belongs there"):
        log.reader.read(bad, 1 << 20, end)


def test_a_length_beyond_the_segment_is_damage() -> None:
    disk = MemoryDisk()
    log = written(disk)
    bad = log.state.segments[2].base_offset + 3
    damage(disk, log, bad, 8, 0x7F)
    log = reopened(disk)
    assert read_from(log, bad - 1) == [bad - 1]
    for _ in range(2):
        with pytest.raises(KafkaError, match="no batch"):
            log.reader.read(bad, 1 << 20, END)


class ColdFile(MemoryFile):
    """A file whose pages are said to be on the disk only."""

    __slots__ = ()

    def resident(self, position: int, length: int) -> bool:
        assert isinstance(self._disk, ColdDisk)
        return not self._disk.cold


class ColdDisk(MemoryDisk):
    cold = False

    def open(self, path: str) -> MemoryFile:
        return ColdFile(self, path)


def test_what_comes_from_the_disk_again_is_looked_at_again() -> None:
    disk = ColdDisk()
    log = open_log(disk, config=CONFIG)
    for i in range(END):
        append(log, make_batch(timestamp=NOW + i, size=40))
    bad = log.state.segments[2].base_offset + 3
    assert log.reader.read_nowait(bad - 1, 1 << 20, END) is not None, "checked when it was written"
    damage(disk, log, bad, 80, 0)
    disk.cold = True
    assert log.reader.read_nowait(bad - 1, 1 << 20, END) is None, "a thread has to read it"
    assert log.reader.read(bad - 1, 1 << 20, END, recheck=True).length < 2 * len(
        make_batch(size=40)
    )
    assert read_from(log, bad - 1) == [bad - 1]
    with pytest.raises(KafkaError):
        log.reader.read_nowait(bad, 1 << 20, END)
    disk.cold = False
    assert read_from(log, bad + 1)[:2] == [bad + 1, bad + 2]


def test_what_the_broker_itself_reads_again_is_looked_at_again_too() -> None:
    """A coordinator that loads its state must not take a flipped bit for a record."""
    disk = ColdDisk()
    log = open_log(disk, config=CONFIG)
    for i in range(END):
        append(log, make_batch(timestamp=NOW + i, size=40))
    bad = log.state.segments[2].base_offset + 3
    damage(disk, log, bad, 80, 0)
    disk.cold = True
    with pytest.raises(CorruptBatch):
        log.reader.read_bytes(bad, 1 << 20, END)


def test_what_is_known_is_not_read_twice() -> None:
    disk = MemoryDisk()
    log = written(disk)
    assert log.reader.read_nowait(20, 1 << 20, END) is None
    first = log.reader.read(20, 1 << 20, END)
    again = log.reader.read_nowait(20, 1 << 20, END)
    assert again is not None and again.slice.read() == first.slice.read()


def test_a_segment_without_indexes_is_read_up_to_the_damage() -> None:
    disk = MemoryDisk()
    log = written(disk)
    segment = log.state.segments[2]
    bad, following = segment.base_offset + 5, log.state.segments[3].base_offset
    damage(disk, log, bad, 16, 7)
    for file in (segment.index.file, segment.time_index.file):
        disk.remove(file.path)
    log = reopened(disk)
    assert read_from(log, bad - 2) == [bad - 2, bad - 1]
    assert log.reader.offset_for_time(NOW + bad - 1) == (bad - 1, NOW + bad - 1, 0)
    with pytest.raises(KafkaError):
        log.reader.read(bad, 1 << 20, END)
    assert read_from(log, following)[0] == following


# --- indexes that go away ---


def on_disk(tmp_path: Path) -> Log:
    """A growing log that keeps one file open at a time."""
    log = open_log(RealDisk(open_files_max=1), path=f"{tmp_path}/t-0", config=CONFIG)
    for i in range(END):
        append(log, make_batch(timestamp=NOW + i, size=40))
    return log


def remove(directory: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        for path in directory.glob(f"t-0/*{suffix}"):
            path.unlink()


def cut(directory: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        for path in directory.glob(f"t-0/*{suffix}"):
            path.write_bytes(path.read_bytes()[:5])


@pytest.mark.parametrize("harm", [remove, cut])
@pytest.mark.parametrize("suffixes", [(".index",), (".timeindex",), (".index", ".timeindex")])
def test_indexes_that_were_removed_from_under_a_log_at_work_are_rebuilt(
    tmp_path: Path, suffixes: tuple[str, ...], harm: Callable[..., None]
) -> None:
    log = on_disk(tmp_path)
    log.durability.flush(END // 2)
    harm(tmp_path, *suffixes)
    for offset in range(0, END, 7):
        assert read_from(log, offset)[0] == offset
        assert log.reader.offset_for_time(NOW + offset) == (offset, NOW + offset, 0)
    harm(tmp_path, *suffixes)
    append(log, make_batch(timestamp=NOW + END))
    log.durability.flush()
    log.segments.roll(NOW)
    append(log, make_batch(timestamp=NOW + END + 1))
    log.close()
    again = open_log(
        RealDisk(), path=f"{tmp_path}/t-0", config=CONFIG, clean=True, recovery_point=END + 2
    )
    for offset in range(END + 2):
        assert again.reader.offset_for_time(NOW + offset) == (offset, NOW + offset, 0)
        assert again.reader.read(offset, 1, END + 2).base_offset == offset
    again.close()
    assert PartitionCheck(RealDisk(), f"{tmp_path}/t-0").run().findings == []


def test_snapshots_and_dropped_files_that_somebody_removed_are_not_missed(tmp_path: Path) -> None:
    log = on_disk(tmp_path)
    remove(tmp_path, ".snapshot")
    log.durability.flush()
    log.segments.delete_before(END // 2)
    remove(tmp_path, ".deleted")
    assert log.segments.remove_deleted() > 0
    append(log)
    log.close()
    assert log.state.dead is None


@pytest.mark.parametrize("active", [False, True], ids=["at rest", "active"])
@pytest.mark.parametrize("gap", [1, 3])
def test_an_index_that_points_elsewhere_leads_no_reader_astray(active: bool, gap: int) -> None:
    disk = MemoryDisk()
    log = open_log(disk, config=CONFIG)
    for base in range(0, END, gap):
        log.appender.append_as_follower(
            make_batch(timestamp=NOW + base, size=40, base_offset=base), NOW
        )
    assert log.state.log_end_offset == END
    log.close()
    path = log.state.segments[-1 if active else 1].index.file.path
    first = log.state.segments[-1 if active else 1].base_offset
    sound = disk.read(path)
    assert len(sound) > 16
    for at in range(len(sound)):
        harmed = bytearray(sound)
        harmed[at] ^= 1 << at * 3 % 8
        disk.write(path, bytes(harmed))
        log = reopened(disk)
        if active:
            log.state.segments[-1].activate()
        for offset in range(first, min(first + 40, END)):
            due = -(-offset // gap) * gap
            assert log.reader.read(offset, 1, END).base_offset == due, at
