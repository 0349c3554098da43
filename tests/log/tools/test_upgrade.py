"""Segments of old message formats, made into segments of batches before their log is opened."""

from pathlib import Path

import pytest
from log.compaction.support import compact
from log.support import PATH, append, open_log

from pk.core.errors import KafkaError
from pk.core.log import oldformat, retention
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.files import Disk
from pk.core.log.log import Log
from pk.core.log.oldformat import holds_messages
from pk.core.log.producers import Producers
from pk.core.log.retention import Retention
from pk.core.log.tools.upgrade import upgrade_log
from pk.core.log.tools.verify import PartitionCheck
from pk.core.record.batch import CorruptBatch, iter_headers, records
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.record.legacy import Row, build_set

NOW_MS = 1_700_000_000_000


def rows_from(start: int, count: int) -> list[Row]:
    return [(start + n, NOW_MS + n, b"k%d" % n, b"value %d" % n) for n in range(count)]


def put(disk: Disk, base_offset: int, data: bytes, suffix: str = ".log") -> None:
    disk.make(PATH)
    disk.open(f"{PATH}/{base_offset:020d}{suffix}").pwrite(data, 0)


def rows_of(log: Log) -> list[Row]:
    found: list[Row] = []
    offset = log.state.log_start_offset
    while offset < log.state.log_end_offset:
        data = log.reader.read(offset, 1 << 20, log.state.log_end_offset).slice.read()
        for at, header in iter_headers(data):
            found += [r[:4] for r in records(data[at : at + header.size])]
            offset = header.next_offset
    return found


def old_log(disk: Disk) -> list[Row]:
    """Three segments: v0, then v1 with every codec and a gap, then v1 followed by v2."""
    first, second, third, modern = (
        rows_from(0, 50),
        rows_from(50, 40) + rows_from(95, 5),
        rows_from(100, 10),
        rows_from(110, 5),
    )
    put(disk, 0, build_set(first, 0, Codec.LZ4) + build_set(rows_from(50, 0), 0))
    put(disk, 50, b"".join(build_set(second[n * 9 : n * 9 + 9], 1, Codec(n % 4)) for n in range(5)))
    put(disk, 100, build_set(third, 1) + build_batch([(*r[1:], ()) for r in modern], 110))
    put(disk, 50, b"points into the old file", ".index")
    return [(o, -1, k, v) for o, _, k, v in first] + second + third + modern


@pytest.mark.parametrize("real", [False, True], ids=["memory", "real"])
def test_an_old_log_is_served(real: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldformat, "READ_BYTES", 300)  # less than the wrappers are
    if real:
        monkeypatch.setitem(globals(), "PATH", str(tmp_path / "t-0"))
    disk: Disk = RealDisk() if real else MemoryDisk()
    rows = old_log(disk)
    assert upgrade_log(disk, PATH) == (3, 0)
    assert not any(name.endswith((".tmp", ".index")) for name in disk.list(PATH))
    assert upgrade_log(disk, PATH) == (0, 0)
    log = open_log(disk, path=PATH, recovery_point=115)
    assert (log.state.log_start_offset, log.state.log_end_offset) == (0, 115)
    assert rows_of(log) == rows
    found = log.reader.offset_for_time(NOW_MS + 9)
    assert found is not None and found.offset == 59
    log.close()


@pytest.mark.parametrize(
    "how", ["crashed", "crashed and synced", "closed", "closed with a snapshot"]
)
def test_an_old_log_that_was_put_there_by_hand_is_served(how: str, tmp_path: Path) -> None:
    disk, path = RealDisk(open_files_max=1), str(tmp_path / "t-0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "PATH", path)
        rows = old_log(disk)
    if how == "closed with a snapshot":
        disk.write(f"{path}/{115:020d}.snapshot", Producers().snapshot())
    recovery_point = 0 if how == "crashed" else 115
    log = open_log(disk, path=path, clean="closed" in how, recovery_point=recovery_point)
    assert (log.state.log_start_offset, log.state.log_end_offset) == (0, 115)
    found = log.reader.offset_for_time(NOW_MS + 9)
    assert found is not None and found.offset == 59
    assert append(log).base_offset == 115
    assert rows_of(log)[:-1] == rows
    log.close()
    log = open_log(disk, path=path, clean=True, recovery_point=116)
    assert rows_of(log)[:-1] == rows
    log.close()
    assert PartitionCheck(disk, path).run().findings == []


def test_an_old_log_is_compacted() -> None:
    disk = MemoryDisk()
    put(disk, 0, build_set([(n, NOW_MS, b"k%d" % (n % 3), b"%d" % n) for n in range(9)], 1))
    put(disk, 9, bytes(build_batch([(NOW_MS, b"k0", b"9", ())], 9)))
    disk.write(f"{PATH}/{10:020d}.snapshot", Producers().snapshot())
    log = open_log(disk, clean=True, recovery_point=10)
    assert compact(log, disk)
    assert [(r[0], r[3]) for r in rows_of(log)] == [(6, b"6"), (7, b"7"), (8, b"8"), (9, b"9")]


def test_reading_a_damaged_old_segment_is_an_error_and_the_others_are_served() -> None:
    disk = MemoryDisk()
    old_log(disk)
    path = f"{PATH}/{50:020d}.log"
    data = bytearray(disk.read(path))
    data[-3] ^= 1
    put(disk, 50, bytes(data))
    log = open_log(disk, clean=True, recovery_point=115)
    for _ in range(2):
        with pytest.raises(CorruptBatch, match=path):
            log.reader.read(60, 1 << 20, 115)
    assert log.reader.read(110, 1 << 20, 115).base_offset == 110
    assert log.reader.read(0, 1 << 20, 115).base_offset == 0
    assert disk.read(path) == bytes(data)
    late = NOW_MS + 10_000
    assert retention.start_offset(log, Retention(1000, -1), 115, late) == 115, "it goes in time"


def test_damage_in_the_middle_is_reported_with_its_place_and_changes_nothing() -> None:
    disk = MemoryDisk()
    old_log(disk)
    path = f"{PATH}/{50:020d}.log"
    data = bytearray(disk.read(path))
    data[-3] ^= 1
    put(disk, 50, bytes(data))
    with pytest.raises(KafkaError, match=path):
        upgrade_log(disk, PATH, repair=True)
    assert disk.read(path) == bytes(data)
    assert not holds_messages(disk.open(f"{PATH}/{0:020d}.log")), "what came before is through"


@pytest.mark.parametrize("lost", range(1, 40, 6))
def test_a_torn_tail_is_cut_only_where_that_is_asked_for(lost: int) -> None:
    disk, rows = MemoryDisk(), rows_from(0, 20)
    data = build_set(rows[:19], 1)
    put(disk, 0, (data + build_set(rows[19:], 1))[:-lost])
    with pytest.raises(KafkaError, match="cut off"):
        upgrade_log(disk, PATH)
    size = len(disk.read(f"{PATH}/{0:020d}.log"))
    assert upgrade_log(disk, PATH, repair=True) == (1, size - len(data))
    assert rows_of(open_log(disk)) == rows[:19]


def test_a_crash_leaves_the_old_or_the_new(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    rows = old_log(disk)

    def fail(old: str, new: str) -> None:
        raise OSError(5, "no more")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "rename", fail)
        with pytest.raises(OSError, match="no more"):
            upgrade_log(disk, PATH)
    assert upgrade_log(disk, PATH) == (3, 0)
    assert rows_of(open_log(disk, recovery_point=115)) == rows
