"""The inspection of a log's files: its output, and every kind of damage with its position."""

import struct
from collections.abc import Callable
from typing import NamedTuple

import pytest
from each import for_each
from log.support import NOW, PATH, TOPIC_ID, append, end_transaction, make_batch, open_log

from pk.core.log.checkpoints import format_offsets, format_partition_metadata
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.tools.inspect import (
    Finding,
    Kind,
    Partition,
    Scan,
    base_of,
    kind_of,
    partition_of,
    survey,
)
from pk.core.log.tools.verify import FINDINGS_MAX, PartitionCheck
from pk.core.log.tools.verify_dirs import verify
from pk.core.record.batch import write_crc
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.record.legacy import build_set
from pk.core.values import TopicPartition

FIRST = f"{PATH}/00000000000000000000"


def written(segments: int = 2) -> MemoryDisk:
    """A log of some segments of ten batches of three records each, indexed every other batch,
    closed; the last batches of the first segment are a transaction that aborts."""
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig(index_interval_bytes=200))
    for n in range(segments):
        for i in range(10):
            append(log, make_batch(3, timestamp=NOW + 1000 * n + i), epoch=n)
        if n == 0:
            append(
                log, make_batch(3, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
            )
            end_transaction(log, 7, commit=False)
        if n + 1 < segments:
            log.segments.roll(NOW)
    log.close()
    return disk


def findings(disk: MemoryDisk, path: str = PATH) -> list[Finding]:
    return PartitionCheck(disk, path).run().findings


def overwrite(disk: MemoryDisk, path: str, position: int, data: bytes) -> None:
    disk.open(path).pwrite(data, position)


def batches(disk: MemoryDisk) -> list[tuple[int, int]]:
    """Position and base offset of the first segment's batches."""
    return [(b.position, b.header.base_offset) for b in Scan(disk.open(f"{FIRST}.log"))]


def test_a_sound_log_has_no_findings_and_is_counted() -> None:
    report = PartitionCheck(written(3), PATH).run()
    assert report.findings == []
    assert (report.segments, report.batches, report.records) == (3, 32, 94)
    assert (report.start_offset, report.end_offset) == (0, 94)


def test_reading_writes_nothing(tmp_path: object) -> None:
    disk = written()
    before = {n: disk.read(f"{PATH}/{n}") for n in disk.list(PATH)}
    findings(disk)
    assert {n: disk.read(f"{PATH}/{n}") for n in disk.list(PATH)} == before
    path = f"{tmp_path}/file"
    RealDisk().write(path, b"abc", sync=False)
    file = RealDisk(read_only=True).open(path)
    assert file.pread(3, 0) == b"abc"
    with pytest.raises(OSError):
        file.pwrite(b"x", 0)
    with pytest.raises(OSError):
        RealDisk(read_only=True).open(f"{tmp_path}/none").pwrite(b"x", 0)


class Damage(NamedTuple):
    """A way to damage a log, and the expected finding."""

    do: Callable[[MemoryDisk], None]
    file: str
    position: int | None
    offset: int | None
    what: str


def _log_byte(n: int, at: int, data: bytes) -> Callable[[MemoryDisk], None]:
    return lambda disk: overwrite(disk, f"{FIRST}.log", batches(disk)[n][0] + at, data)


def _recoded(n: int, at: int, data: bytes) -> Callable[[MemoryDisk], None]:
    """A header field changed, with the CRC made right again."""

    def do(disk: MemoryDisk) -> None:
        scan = list(Scan(disk.open(f"{FIRST}.log")))
        batch = bytearray(scan[n].data)
        batch[at : at + len(data)] = data
        write_crc(batch)
        overwrite(disk, f"{FIRST}.log", scan[n].position, bytes(batch))

    return do


def _file(suffix: str, position: int, data: bytes) -> Callable[[MemoryDisk], None]:
    return lambda disk: overwrite(disk, f"{FIRST}{suffix}", position, data)


def _cut(suffix: str, less: int) -> Callable[[MemoryDisk], None]:
    def do(disk: MemoryDisk) -> None:
        file = disk.open(f"{FIRST}{suffix}")
        file.truncate(file.size() - less)

    return do


DAMAGE = {
    "a flipped bit in a record": Damage(_log_byte(4, 80, b"\xff"), ".log", 4, 12, "CRC is"),
    "a wrong magic": Damage(_log_byte(5, 16, b"\x09"), ".log", 5, 15, "no message format v9"),
    "a length too small": Damage(_log_byte(5, 8, bytes(4)), ".log", 5, 15, "cannot have 12 bytes"),
    "a length too large": Damage(
        _log_byte(5, 8, b"\x00\xff\xff\xff"), ".log", 5, 15, "claims 16777227 bytes"
    ),
    "an offset that falls": Damage(_log_byte(5, 0, bytes(8)), ".log", 5, 0, "but 15 is due"),
    "an offset of the next segment": Damage(
        _log_byte(11, 0, struct.pack(">q", 99)), ".log", 11, 99, "next segment begins at 34"
    ),
    "a count that lies": Damage(
        _recoded(2, 57, struct.pack(">i", 2)), ".log", 2, 6, "cannot be read"
    ),
    "a last offset delta that lies": Damage(
        _recoded(2, 23, struct.pack(">i", 1)), ".log", 2, 6, "out of its place"
    ),
    "a latest time too early": Damage(
        _recoded(2, 35, struct.pack(">q", 5)), ".log", 2, 6, "later than the batch's"
    ),
    "an epoch that falls": Damage(
        _log_byte(3, 12, struct.pack(">i", 7)), ".log", 4, 12, "comes after epoch 7"
    ),
    "a torn tail": Damage(_cut(".log", 10), ".log", 11, 33, "cut off"),
    "an index entry between batches": Damage(
        _file(".index", 4, struct.pack(">i", 13)), ".index", 0, None, "where no batch begins"
    ),
    "an index entry of another batch": Damage(
        _file(".index", 0, struct.pack(">i", 3)), ".index", 0, 3, "entry 0 says 3"
    ),
    "index entries out of order": Damage(
        _file(".index", 8, struct.pack(">i", 1)), ".index", 8, 1, "not after the previous entry"
    ),
    "an index of odd size": Damage(_cut(".index", 3), ".index", None, None, "multiple"),
    "an empty index entry before others": Damage(
        _file(".index", 8, bytes(8)), ".index", 8, None, "is empty, but something follows"
    ),
    "a time that is not the batch's": Damage(
        _file(".timeindex", 0, struct.pack(">q", NOW + 100)), ".timeindex", 0, None, "entry 0 says"
    ),
    "times out of order": Damage(
        _file(".timeindex", 12, struct.pack(">q", 1)), ".timeindex", 12, None, "not after"
    ),
    "a time index without its last entry": Damage(
        _cut(".timeindex", 12), ".timeindex", None, None, "is missing"
    ),
    "a time index of odd size": Damage(_cut(".timeindex", 5), ".timeindex", None, None, "multiple"),
    "an abort that is not listed": Damage(
        _cut(".txnindex", 34), ".txnindex", 0, 33, "aborted at 33, is missing"
    ),
    "aborts whose index is gone": Damage(
        lambda disk: disk.remove(f"{FIRST}.txnindex"),
        ".txnindex",
        0,
        33,
        "aborted at 33, is missing",
    ),
    "an abort of another producer": Damage(
        _file(".txnindex", 2, struct.pack(">q", 8)), ".txnindex", 0, 33, "names producer 8"
    ),
    "an abort that is none": Damage(
        _file(".txnindex", 18, struct.pack(">q", 30)), ".txnindex", 0, 30, "no abort marker"
    ),
    "an abort of another version": Damage(
        _file(".txnindex", 0, b"\x00\x01"), ".txnindex", 0, 33, "version 1"
    ),
    "an index without its log": Damage(
        lambda disk: disk.remove(f"{FIRST}.log"), ".index", 0, 0, "is missing"
    ),
}


@for_each("name", DAMAGE)
def test_damage_is_found_in_its_place(name: str) -> None:
    disk, damage = written(), DAMAGE[name]
    places = batches(disk)
    damage.do(disk)
    found = [
        f for f in findings(disk) if f.file == f"{FIRST}{damage.file}" and damage.what in f.what
    ]
    assert found, findings(disk)
    if damage.position is not None:
        due = places[damage.position][0] if damage.file == ".log" else damage.position
        assert found[0].position == due
    if damage.offset is not None:
        assert found[0].offset == damage.offset


def test_what_follows_unreadable_bytes_is_checked_all_the_same() -> None:
    disk = written()
    _log_byte(8, 80, b"\xff")(disk)
    _log_byte(2, 16, b"\x09")(disk)
    found = [f.what for f in findings(disk) if f.file.endswith(".log")]
    assert any("where the index has a batch" in what for what in found)
    assert any(what.startswith("CRC is") for what in found)


def test_damage_to_the_small_files_is_found() -> None:
    disk = written()
    disk.write(f"{PATH}/leader-epoch-checkpoint", b"0\n2\n0 0\n1 12\n")
    (found,) = findings(disk)
    assert found.what.startswith("leader epoch 0, but leader-epoch-checkpoint says 1")
    disk.write(f"{PATH}/leader-epoch-checkpoint", b"nonsense")
    assert [f.file for f in findings(disk)] == [f"{PATH}/leader-epoch-checkpoint"]
    disk = written()
    snapshot = f"{PATH}/{34:020d}.snapshot"
    overwrite(disk, snapshot, 12, b"\xff")
    (found,) = findings(disk)
    assert (found.file, found.offset) == (snapshot, 34) and "wrong CRC" in found.what


def test_a_data_directory_is_held_against_its_small_files() -> None:
    disk = written()
    found: list[Finding] = []

    def look() -> list[str]:
        found.clear()
        verify(disk, "/data", lambda _, report: found.extend(report.findings))
        return [f.what for f in found]

    disk.write(f"{PATH}/partition.metadata", format_partition_metadata(TOPIC_ID))
    disk.write(
        "/data/recovery-point-offset-checkpoint", format_offsets({TopicPartition("t", 0): 64})
    )
    assert look() == []
    disk.write(
        "/data/recovery-point-offset-checkpoint", format_offsets({TopicPartition("t", 0): 65})
    )
    assert look() == ["says 65 for t-0, whose log ends at 64"]
    disk.write("/data/recovery-point-offset-checkpoint", b"0\nx\n")
    assert found == [] or look()[0].startswith("invalid literal")
    disk.make("/data/t-1")
    disk.write("/data/t-1/partition.metadata", format_partition_metadata(bytes(16)))
    disk.remove("/data/recovery-point-offset-checkpoint")
    (what,) = look()
    assert "but /data/t-0 has" in what
    disk.write("/data/meta.properties", b"version=0\n")
    assert any(f.file == "/data/meta.properties" for f in (look(), found)[1])


def test_a_file_tells_of_so_many_findings_and_no_more() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for _ in range(FINDINGS_MAX + 5):
        append(log)
    log.close()
    size = disk.open(f"{FIRST}.log").size() // (FINDINGS_MAX + 5)
    for n in range(FINDINGS_MAX + 5):
        overwrite(disk, f"{FIRST}.log", n * size + 65, b"\xff")
    found = findings(disk)
    assert len(found) == FINDINGS_MAX + 1
    assert found[-1].what == "and 5 more findings in this file from here on"


def test_a_batch_that_is_being_written_is_waited_for() -> None:
    disk = written(1)
    whole = disk.read(f"{FIRST}.log")
    file = disk.open(f"{FIRST}.log")
    file.truncate(len(whole) - 20)
    waited = []

    def again() -> None:
        waited.append(1)
        if len(waited) == 3:
            file.pwrite(whole[-20:], len(whole) - 20)

    scan = Scan(file, again=again)
    assert len(list(scan)) == 12 and scan.problems == [] and len(waited) == 3
    file.truncate(len(whole) - 20)
    torn = Scan(file, again=lambda: None)
    assert len(list(torn)) == 11 and "cut off" in torn.problems[0].what


def test_batches_that_come_while_reading_are_read_too() -> None:
    disk = written(1)
    scan = Scan(disk.open(f"{FIRST}.log"))
    walk = iter(scan)
    next(walk)
    log = open_log(disk, clean=True)
    append(log)
    log.close()
    assert len(list(walk)) == 12


def test_zero_bytes_at_the_end_are_named() -> None:
    disk = written(1)
    size = disk.open(f"{FIRST}.log").size()
    overwrite(disk, f"{FIRST}.log", size, bytes(4096))
    (found,) = findings(disk)
    assert (found.position, found.what) == (size, "4096 zero bytes at the end")


def test_kafka_s_preallocated_indexes_are_sound() -> None:
    disk = written(1)
    for suffix in (".index", ".timeindex"):
        file = disk.open(f"{FIRST}{suffix}")
        file.pwrite(bytes(1200), file.size())
    assert findings(disk) == []


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_and_holes_are_read(codec: Codec) -> None:
    disk = MemoryDisk()
    disk.make(PATH)
    records = [(NOW + i, b"k", b"v" * 50, (("h", None),)) for i in range(20)]
    disk.open(f"{FIRST}.log").pwrite(build_batch(records, 5, 0, codec=codec), 0)
    report = PartitionCheck(disk, PATH).run()
    assert (report.findings, report.records, report.end_offset) == ([], 20, 25)
    (batch,) = Partition(disk, PATH).batches()
    assert [r.offset for r in batch.records()] == list(range(5, 25))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_messages_are_read_and_their_damage_is_found(magic: int, codec: Codec) -> None:
    disk = MemoryDisk()
    disk.make(PATH)
    time = NOW if magic else -1
    data = build_set([(i, time, b"k", b"value") for i in range(4)], magic, codec)
    file = disk.open(f"{FIRST}.log")
    file.pwrite(data, 0)
    report = PartitionCheck(disk, PATH).run()
    assert (report.findings, report.records, report.end_offset) == ([], 4, 4)
    file.pwrite(b"\xff", len(data) - 1)
    (found,) = findings(disk)
    assert found.what.startswith("CRC is")


def test_reading_from_an_offset_begins_at_its_batch() -> None:
    partition = Partition(written(3), PATH)
    assert [b.header.base_offset for b in partition.batches(70)][:3] == [70, 73, 76]
    assert next(partition.batches(35)).header.base_offset == 34
    assert list(partition.batches(1000)) == []


def test_names_are_understood() -> None:
    assert kind_of("00000000000000000012.log.deleted") is Kind.LOG
    assert kind_of("00000000000000000012.index.swap") is Kind.INDEX
    assert kind_of("cleaner-offset-checkpoint") is Kind.OFFSETS
    assert kind_of("readme.txt") is None
    assert base_of("00000000000000000012-0000000003.checkpoint") == 12
    with pytest.raises(ValueError, match="twenty digits"):
        base_of("12.log")
    assert partition_of("/x/a-b-3") == TopicPartition("a-b", 3)
    assert partition_of(f"/x/a-b-3.{'0' * 32}-delete") == TopicPartition("a-b", 3)
    assert partition_of("/x/data") is None
    disk = written()
    assert survey(disk, "/data").partitions == [PATH]
    assert survey(disk, PATH).partitions == [PATH]
