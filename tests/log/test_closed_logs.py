"""The note of an orderly stop: a start that goes by it opens what a start that lists and reads
opens, and one that cannot go by it lists and reads."""

import errno
import itertools
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log.support import NOW, append, end_transaction, make_batch
from log.test_log_dirs import open_dirs

from pk.core import cbor
from pk.core.cbor import CborError
from pk.core.log import closed_logs
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.files import Entry
from pk.core.log.log import Log
from pk.core.log.log_dirs import LogDirs
from pk.core.values import TopicPartition

TOPIC_ID = b"t" * 16
CONFIG = LogConfig(segment_bytes=1000)
NOTE = f"/data/{closed_logs.NOTE}"
ROLLED, PRODUCED, EMPTY, ABORTED = (
    TopicPartition(name, 0) for name in ("rolled", "produced", "empty", "aborted")
)
ALL = (ROLLED, PRODUCED, EMPTY, ABORTED)


class WatchedDisk(MemoryDisk):
    """Records the operations on directories of logs."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = list[str]()

    def list(self, path: str, unmeasured: Collection[str] = ()) -> dict[str, Entry]:
        self.asked.append(f"list {path}")
        return super().list(path, unmeasured)

    def read(self, path: str) -> bytes:
        self.asked.append(f"read {path}")
        return super().read(path)


def asked_of(disk: WatchedDisk, tp: TopicPartition) -> list[str]:
    return [what for what in disk.asked if f"/data/{tp}" in what]


def fill(dirs: LogDirs) -> None:
    """Logs of several segments and epochs, of a producer, with nothing in it, and with an aborted
    transaction."""
    logs = {tp: dirs.open_log(tp, TOPIC_ID, CONFIG, NOW) for tp in ALL}
    for i in range(30):
        append(logs[ROLLED], make_batch(timestamp=NOW + i, size=100), epoch=i // 10)
    logs[ROLLED].segments.delete_before(7)
    for i in range(3):
        append(logs[PRODUCED], make_batch(producer_id=5, sequence=i, producer_epoch=0))
    batch = make_batch(producer_id=5, sequence=0, transactional=True, producer_epoch=0)
    append(logs[ABORTED], batch)
    end_transaction(logs[ABORTED], 5, commit=False)


def closed() -> WatchedDisk:
    """A disk on which all logs were closed."""
    disk = WatchedDisk()
    dirs = open_dirs(disk)
    fill(dirs)
    dirs.close({})
    disk.asked.clear()
    return disk


def seen(log: Log) -> object:
    """The state that opening a log must find."""
    times = [
        log.reader.offset_for_time(NOW + i) for i in (29, 20)
    ]  # indexes are looked at when used
    return (
        times,
        log.state.log_start_offset,
        log.state.log_end_offset,
        log.durability.recovery_point,
        [
            (s.base_offset, s.size, s.index.entries, s.time_index.entries)
            for s in log.state.segments
        ],
        [s.txn_index.size for s in log.state.segments],
        log.state.epochs.entries,
        log.state.producers.snapshot(),
        sorted(log.state.snapshots),
        log.reader.read_bytes(log.state.log_start_offset, 1 << 20, log.state.log_end_offset),
    )


def opened(disk: MemoryDisk) -> dict[TopicPartition, object]:
    dirs = open_dirs(disk)
    return {tp: seen(dirs.open_log(tp, TOPIC_ID, CONFIG, NOW)) for tp in ALL}


def listed(disk: MemoryDisk) -> dict[TopicPartition, object]:
    """The logs that a start without the note opens."""
    disk.remove(NOTE)
    return opened(disk)


SEEN = listed(closed())


def test_a_start_neither_lists_nor_reads_logs_that_are_as_they_were_closed() -> None:
    disk = closed()
    dirs = open_dirs(disk)
    for tp in (ROLLED, PRODUCED, EMPTY):
        log = dirs.open_log(tp, TOPIC_ID, CONFIG, NOW)
        assert log.state.epochs.entries == ([] if tp == EMPTY else log.state.epochs.entries)
        assert asked_of(disk, tp) == []
    dirs.open_log(ABORTED, TOPIC_ID, CONFIG, NOW)
    assert asked_of(disk, ABORTED), "whether its index of aborts is whole must be looked at"


def test_it_opens_what_listing_and_reading_finds() -> None:
    assert opened(closed()) == listed(closed())


def test_logs_that_were_not_written_to_are_closed_as_they_were_opened() -> None:
    disk = closed()
    for again in range(3):
        dirs = open_dirs(disk)
        for tp in ALL:
            dirs.open_log(tp, TOPIC_ID, CONFIG, NOW).state.assign_epoch_start(9)
        disk.asked.clear()
        dirs.close({})
        if again:  # the first time a deleted segment's files went
            assert asked_of(disk, ROLLED) == asked_of(disk, EMPTY) == []
    assert opened(disk) == listed(closed())


def test_logs_that_were_not_opened_stay_noted() -> None:
    disk = closed()
    dirs = open_dirs(disk)
    dirs.open_log(EMPTY, TOPIC_ID, CONFIG, NOW)
    dirs.close({})
    disk.asked.clear()
    open_dirs(disk).open_log(ROLLED, TOPIC_ID, CONFIG, NOW)
    assert asked_of(disk, ROLLED) == []


def segment(base: int, suffix: str) -> str:
    return f"/data/{ROLLED}/{base:020d}{suffix}"


def last_base(disk: MemoryDisk) -> int:
    return max(int(n[:20]) for n in disk.list(f"/data/{ROLLED}") if n.endswith(".log"))


HARMS: dict[str, Callable[[MemoryDisk], None]] = {
    "an index is gone": lambda disk: disk.remove(segment(last_base(disk), ".index")),
    "an index was cut": lambda disk: disk.open(segment(last_base(disk), ".timeindex")).truncate(5),
    "a snapshot is gone": lambda disk: disk.remove(segment(30, ".snapshot")),
    "a crash left a file": lambda disk: disk.open(segment(99, ".log.deleted")).pwrite(b"x", 0),
    "the epochs are gone": lambda disk: disk.remove(f"/data/{ROLLED}/leader-epoch-checkpoint"),
    "the metadata is gone": lambda disk: disk.remove(f"/data/{ROLLED}/partition.metadata"),
}

OF_RECORDS: dict[str, tuple[Callable[[MemoryDisk], object], int]] = {
    "a segment is gone": (lambda disk: disk.remove(segment(last_base(disk), ".log")), 25),
    "a segment was cut": (
        lambda disk: (file := disk.open(segment(last_base(disk), ".log"))).truncate(
            file.size() * 4 // 5
        ),
        29,
    ),
    "the last batch was torn": (
        lambda disk: (file := disk.open(segment(last_base(disk), ".log"))).truncate(
            file.size() - 3
        ),
        29,
    ),
    "the first segment is gone": (lambda disk: disk.remove(segment(5, ".log")), 7),
    "another program appended": (
        lambda disk: (file := disk.open(segment(last_base(disk), ".log"))).pwrite(
            make_batch(base_offset=30, leader_epoch=3), file.size()
        ),
        31,
    ),
}
"""Each change to the records, and the log's end after it."""


@pytest.mark.parametrize("harm", HARMS)
def test_what_has_changed_meanwhile_is_found_as_without_the_note(harm: str) -> None:
    with_note, without = closed(), closed()
    for disk in (with_note, without):
        HARMS[harm](disk)
    with_note.asked.clear()
    found = opened(with_note)
    assert asked_of(with_note, ROLLED) or harm == "an index was cut"
    assert f"list /data/{PRODUCED}" not in with_note.asked
    assert found == listed(without)


@pytest.mark.parametrize("harm", OF_RECORDS)
def test_a_log_whose_records_have_changed_meanwhile_is_checked(harm: str) -> None:
    disk = closed()
    change, end = OF_RECORDS[harm]
    change(disk)
    log = open_dirs(disk).open_log(ROLLED, TOPIC_ID, CONFIG, NOW)
    assert log.state.log_end_offset == end
    assert (log.mark is not None) == (end < 30)


@pytest.mark.parametrize(("cut", "end"), [(3, 1), (60, 1), (1000, 0)])
def test_the_end_of_a_closed_log_that_is_not_in_the_note_is_looked_at(cut: int, end: int) -> None:
    disk = closed()
    path = f"/data/{ABORTED}/{0:020d}.log"
    file = disk.open(path)
    file.truncate(max(file.size() - cut, 0))
    log = open_dirs(disk).open_log(ABORTED, TOPIC_ID, CONFIG, NOW)
    assert log.state.log_end_offset == end and log.mark is not None


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("suffixes", [(".log",), (".log", ".index", ".timeindex")])
def test_a_segment_that_is_gone_from_a_log_that_is_not_in_the_note_is_missed(
    place: int, suffixes: tuple[str, ...]
) -> None:
    disk = WatchedDisk()
    dirs = open_dirs(disk)
    log = dirs.open_log(ABORTED, TOPIC_ID, CONFIG, NOW)
    append(log, make_batch(producer_id=5, sequence=0, transactional=True, producer_epoch=0))
    end_transaction(log, 5, commit=False)
    for i in range(30):
        append(log, make_batch(timestamp=NOW + i, size=100))
    bases = [s.base_offset for s in log.state.segments]
    dirs.close({})
    assert len(bases) > 3
    for suffix in suffixes:
        disk.remove(f"/data/{ABORTED}/{bases[place]:020d}{suffix}")
    log = open_dirs(disk).open_log(ABORTED, TOPIC_ID, CONFIG, NOW)
    assert (log.state.log_end_offset, log.mark is not None) == (bases[place], True)


def test_a_log_of_another_topic_is_not_taken_for_ours() -> None:
    disk = closed()
    dirs = open_dirs(disk)
    log = dirs.open_log(ROLLED, b"u" * 16, CONFIG, NOW)
    assert log.state.log_end_offset == 0
    assert [name for name in disk.list("/data") if name.endswith("-stray")]


def test_after_a_crash_the_note_is_not_read() -> None:
    disk = closed()
    note = disk.read(NOTE)
    open_dirs(disk).release()
    assert not disk.exists(NOTE), "it is true of logs that are closed"
    disk.write(NOTE, note)  # its removal was not durable
    dirs = open_dirs(disk)
    assert not disk.exists(NOTE)
    assert not dirs.directories[0].closed
    assert dirs.open_log(ROLLED, TOPIC_ID, CONFIG, NOW).recovered is not None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_without_the_note_a_stop_is_as_clean(code: int) -> None:
    disk = WatchedDisk()
    dirs = open_dirs(disk)
    fill(dirs)
    disk.fail_next("write", code, suffix=f"{closed_logs.NOTE}.tmp")
    dirs.close({})
    dirs = open_dirs(disk)
    assert dirs.directories[0].clean and not dirs.directories[0].closed
    assert dirs.open_log(ROLLED, TOPIC_ID, CONFIG, NOW).state.log_end_offset == 30


@pytest.mark.parametrize("harm", ["its directory went", "a name is not UTF-8"])
def test_a_log_that_cannot_be_noted_is_left_out(harm: str) -> None:
    disk = closed()
    dirs = open_dirs(disk)
    for tp in ALL:
        dirs.open_log(tp, TOPIC_ID, CONFIG, NOW)
    if harm == "its directory went":
        disk.remove_tree(f"/data/{EMPTY}")
    else:
        name = b"\xff.tmp".decode("utf-8", "surrogateescape")
        disk.open(f"/data/{EMPTY}/{name}").pwrite(b"x", 0)
    dirs.close({})
    dirs = open_dirs(disk)
    assert dirs.directories[0].clean
    assert dirs.directories[0].closed.keys() == {str(ROLLED), str(PRODUCED)}


def test_epochs_that_were_read_from_the_batches_are_not_noted_as_none() -> None:
    disk = closed()
    epochs = open_dirs(disk).open_log(ROLLED, TOPIC_ID, CONFIG, NOW).state.epochs.entries
    disk = closed()
    disk.remove(f"/data/{ROLLED}/leader-epoch-checkpoint")
    for _ in range(3):
        dirs = open_dirs(disk)
        assert dirs.open_log(ROLLED, TOPIC_ID, CONFIG, NOW).state.epochs.entries[1:] == epochs[1:]
        dirs.close({})


def test_a_document_that_ends_elsewhere_than_the_recovery_point_is_not_used() -> None:
    disk = closed()
    points = disk.read("/data/recovery-point-offset-checkpoint")
    disk.write(
        "/data/recovery-point-offset-checkpoint", points.replace(b"rolled 0 30", b"rolled 0 29")
    )
    log = open_dirs(disk).open_log(ROLLED, TOPIC_ID, CONFIG, NOW)
    assert asked_of(disk, ROLLED) and log.state.log_end_offset == 30


def test_a_large_note_on_a_real_disk_is_read_whole(tmp_path: Path) -> None:
    documents = {f"t-{i}": bytes(100) for i in range(5000)}
    RealDisk().write(f"{tmp_path}/note", closed_logs.format_note(documents))
    assert closed_logs.parse_note(RealDisk().read(f"{tmp_path}/note")) == documents


PLAIN = st.recursive(
    st.none() | st.integers() | st.binary(max_size=16) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=20,
)


@given(PLAIN | st.lists(PLAIN, min_size=7, max_size=7))
def test_documents_of_any_shape_are_refused(value: object) -> None:
    disk = MemoryDisk()
    disk.make("/data/a-0")
    try:
        found = closed_logs.closed_log(disk, "/data/a-0", TOPIC_ID, cbor.dumps_plain(value))
    except CborError:
        return
    assert found is None


@given(st.data())
def test_a_note_that_is_damaged_anywhere_is_none(data: st.DataObject) -> None:
    disk = closed()
    note = disk.read(NOTE)
    at = data.draw(st.integers(0, len(note) - 1))
    damaged = note[:at] + data.draw(st.binary(max_size=4)) + note[at + 1 :]
    disk.write(NOTE, damaged)
    assert opened(disk) == SEEN


@pytest.mark.parametrize(
    "content",
    [b"what is this", cbor.dumps("pk.closed", 0, [1]), cbor.dumps("pk.closed", 0, {1: 2})],
)
def test_a_note_that_cannot_be_read_is_none(content: bytes) -> None:
    disk = closed()
    disk.write(NOTE, content)
    found = opened(disk)
    assert found == listed(closed())


def test_one_document_that_cannot_be_read_ends_the_use_of_the_note(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = closed()
    documents = closed_logs.parse_note(disk.read(NOTE))
    disk.write(NOTE, closed_logs.format_note(dict.fromkeys(documents, b"\x80")))
    assert opened(disk) == listed(closed())
    assert len([record for record in caplog.records if "cannot be read" in record.message]) == 1


def test_on_a_real_disk(tmp_path: Path) -> None:
    dirs = open_dirs(RealDisk(), str(tmp_path))
    fill(dirs)
    dirs.close({})
    dirs = open_dirs(RealDisk(), str(tmp_path))
    for tp in ALL:
        dirs.open_log(tp, TOPIC_ID, CONFIG, NOW)
    dirs.close({})
    noted = closed_logs.parse_note((tmp_path / closed_logs.NOTE).read_bytes())
    assert noted.keys() == {str(tp) for tp in ALL if tp != ABORTED}
    for name, document in noted.items():
        path = f"{tmp_path}/{name}"
        assert closed_logs.closed_log(RealDisk(), path, TOPIC_ID, document) is not None
    path = tmp_path / str(ROLLED)
    newest = max(path.glob("*.log"))
    newest.write_bytes(newest.read_bytes()[:-9])
    assert closed_logs.closed_log(RealDisk(), str(path), TOPIC_ID, noted[str(ROLLED)]) is None
    (tmp_path / str(PRODUCED) / "new").touch()
    path = tmp_path / str(PRODUCED)
    assert closed_logs.closed_log(RealDisk(), str(path), TOPIC_ID, noted[str(PRODUCED)]) is None


def test_small_logs_without_producers_keep_their_snapshots_through_a_crash() -> None:
    """Removing a snapshot takes longer than the rest of such a log's recovery."""
    removed = list[str]()

    class Disk(MemoryDisk):
        def remove(self, path: str) -> None:
            removed.append(path)
            super().remove(path)

    disk = Disk()
    dirs = open_dirs(disk)
    log = dirs.open_log(EMPTY, TOPIC_ID, CONFIG, NOW)
    for _ in range(3):
        append(log, epoch=4)
    dirs.close({})
    dirs = open_dirs(disk)
    log = dirs.open_log(EMPTY, TOPIC_ID, CONFIG, NOW)
    for _ in range(2):
        append(log, epoch=6)
    dirs.release()
    removed.clear()
    log = open_dirs(disk).open_log(EMPTY, TOPIC_ID, CONFIG, NOW)
    assert removed == [] and log.state.snapshots == [3]
    assert log.state.log_end_offset == 5
    assert [tuple(e) for e in log.state.epochs.entries] == [(4, 0), (6, 3)]
    assert len(log.state.producers) == 0 and log.state.producers.next_offset == 5


@pytest.mark.parametrize("snapshots", [*itertools.product([False, True], repeat=2)])
def test_where_a_producer_wrote_a_crash_leaves_the_state_of_its_batches(
    snapshots: tuple[bool, bool],
) -> None:
    disk = MemoryDisk()
    dirs = open_dirs(disk)
    for sequence, close in enumerate(snapshots):
        log = dirs.open_log(PRODUCED, TOPIC_ID, CONFIG, NOW)
        append(log, make_batch(producer_id=5, sequence=sequence, producer_epoch=0))
        if close:
            dirs.close({})
        else:
            dirs.release()
        dirs = open_dirs(disk)
    log = dirs.open_log(PRODUCED, TOPIC_ID, CONFIG, NOW)
    append(log)
    dirs.release()
    log = open_dirs(disk).open_log(PRODUCED, TOPIC_ID, CONFIG, NOW)
    assert len(log.state.producers) == 1 and log.state.log_end_offset == 3
    append(log, make_batch(producer_id=5, sequence=2, producer_epoch=0))
    assert log.state.log_end_offset == 4
