"""The last stable offset and the list of aborted transactions, as far as a log knows them."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from log.support import NOW, PATH, append, durable, end_transaction, make_batch, open_log

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.failures import StorageError
from pk.core.log.files import Data
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryFile
from pk.core.log.non_blocking import WouldBlock, reads
from pk.core.log.tools.verify import PartitionCheck
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.build import build_batch


def send(log: Log, producer_id: int, sequence: int = 0) -> int:
    batch = make_batch(
        producer_id=producer_id, producer_epoch=0, sequence=sequence, transactional=True
    )
    return append(log, batch).base_offset


def aborted(log: Log, offset: int, bytes_max: int = 1 << 20) -> list[tuple[int, int]]:
    fetched = log.reader.read(offset, bytes_max, log.state.log_end_offset)
    return [
        (a.producer_id, a.first_offset) for a in log.reader.aborted_transactions(offset, fetched)
    ]


def test_the_last_stable_offset_waits_for_the_oldest_transaction() -> None:
    log = open_log()
    append(log)  # 0
    assert log.state.last_stable_offset(1) == 1
    send(log, 1)  # 1
    send(log, 2)  # 2
    append(log)  # 3
    assert log.state.last_stable_offset(4) == 1
    assert log.state.last_stable_offset(1) == 1
    assert log.state.last_stable_offset(0) == 0
    end_transaction(log, 1, commit=True)  # 4
    assert log.state.last_stable_offset(4) == 1, "the marker is not replicated yet"
    assert log.state.last_stable_offset(5) == 2
    end_transaction(log, 2, commit=False)  # 5
    assert log.state.last_stable_offset(6) == 6


def test_the_last_stable_offset_is_not_below_the_start_of_the_log() -> None:
    log = open_log()
    for sequence in range(3):
        send(log, 1, sequence)
    append(log)
    log.segments.delete_before(2)
    assert log.state.last_stable_offset(4) == 2
    end_transaction(log, 1, commit=True)
    assert log.state.last_stable_offset(5) == 5


def test_aborted_transactions_are_reported_where_they_overlap() -> None:
    log = open_log()
    send(log, 1)  # 0
    append(log)  # 1
    end_transaction(log, 1, commit=False)  # 2
    send(log, 2)  # 3
    end_transaction(log, 2, commit=True)  # 4
    send(log, 3)  # 5
    end_transaction(log, 3, commit=False)  # 6
    assert aborted(log, 0) == [(1, 0), (3, 5)]
    assert aborted(log, 2) == [(1, 0), (3, 5)]
    assert aborted(log, 3) == [(3, 5)]
    assert aborted(log, log.state.log_end_offset) == []


def test_a_transaction_over_several_segments() -> None:
    log = open_log()
    send(log, 1)
    log.segments.roll(0)
    for _ in range(3):
        append(log)
    log.segments.roll(0)
    end_transaction(log, 1, commit=False)
    assert [segment.txn_index.empty for segment in log.state.segments] == [True, True, False]
    for offset in range(5):
        assert aborted(log, offset) == [(1, 0)]


def test_what_is_far_behind_a_slice_is_not_reported() -> None:
    log = open_log(config=LogConfig(index_interval_bytes=0))
    for i in range(20):
        send(log, i)
        end_transaction(log, i, commit=False)
    reported = aborted(log, 0, bytes_max=1)
    assert reported[0] == (0, 0)
    assert len(reported) < 5


@pytest.mark.parametrize("how", ["clean", "crash", "truncate"])
def test_transactions_are_still_known_after(how: str) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1)  # 0
    end_transaction(log, 1, commit=False)  # 1
    send(log, 2)  # 2
    log.segments.roll(0)
    send(log, 3)  # 3
    end_transaction(log, 3, commit=False)  # 4
    if how == "truncate":
        append(log)
        end_transaction(log, 2, commit=True)
        log.segments.truncate_to(5)
    else:
        if how == "clean":
            log.close()
        log = open_log(
            disk,
            clean=how == "clean",
            recovery_point=log.durability.recovery_point if how == "clean" else 0,
        )
    assert aborted(log, 0) == [(1, 0)]
    assert aborted(log, 3) == [(3, 3)]
    assert log.state.last_stable_offset(5) == 2
    assert log.state.segments[0].txn_index.all() == [(1, 0, 1, 2)]
    assert log.state.segments[1].txn_index.all() == [(3, 3, 4, 2)]


def test_an_abort_for_whose_index_there_is_no_room_is_still_reported() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1)  # 0
    disk.fail_next("write", errno.ENOSPC, suffix=".txnindex", after_bytes=7, times=3)
    end_transaction(log, 1, commit=False)  # 1
    with pytest.raises(StorageError):
        aborted(log, 0)
    log.durability.flush()
    assert (log.durability.durable_offset, log.durability.recovery_point, log.state.dead) == (
        2,
        0,
        None,
    )
    assert not disk.faults
    durable(disk)
    disk.crash()
    log = open_log(disk, clean=False, recovery_point=log.durability.recovery_point)
    assert aborted(log, 0) == [(1, 0)]


# --- indexes that are lost ---

ABORTED = [(1, 0), (2, 2), (3, 4), (4, 6)]


def with_aborts(path: str) -> Log:
    """Four transactions that abort, in three segments. The transaction of producer 2 ends in a
    later segment than it began in. The disk keeps one file open at a time."""
    log = open_log(RealDisk(open_files_max=1), path=path)
    send(log, 1)  # 0
    end_transaction(log, 1, commit=False)  # 1
    send(log, 2)  # 2
    log.segments.roll(0)
    end_transaction(log, 2, commit=False)  # 3
    send(log, 3)  # 4
    end_transaction(log, 3, commit=False)  # 5
    log.segments.roll(0)
    send(log, 4)  # 6
    end_transaction(log, 4, commit=False)  # 7
    return log


def all_aborted(log: Log) -> list[tuple[int, int]]:
    """The aborted transactions that a reader of the log gets, one batch at a time from its
    start."""
    reported: list[tuple[int, int]] = []
    for offset in range(log.state.log_end_offset):
        reported += [each for each in aborted(log, offset, bytes_max=1) if each not in reported]
    return reported


def removed(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def overwritten(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def harm(directory: Path, do: Callable[[Path], None], *suffixes: str) -> None:
    found = [path for suffix in suffixes for path in directory.glob(f"*{suffix}")]
    assert found
    for path in found:
        do(path)


def check_reopened(path: Path, end: int, due: list[tuple[int, int]]) -> None:
    log = open_log(RealDisk(), path=str(path), clean=True, recovery_point=end)
    assert log.state.log_end_offset == end and log.recovered is None
    assert all_aborted(log) == due
    log.close()
    assert PartitionCheck(RealDisk(), str(path)).run().findings == []


@pytest.mark.parametrize("do", [removed, cut, emptied, overwritten])
def test_an_index_that_was_harmed_under_a_log_at_work_is_rebuilt(
    do: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "t-0"
    log = with_aborts(str(path))
    log.durability.flush()
    harm(path, do, ".txnindex")
    assert all_aborted(log) == ABORTED
    harm(path, do, ".txnindex")
    send(log, 5)  # 8
    end_transaction(log, 5, commit=False)  # 9
    log.durability.flush()
    send(log, 5, 1)  # 10
    end_transaction(log, 5, commit=False)  # 11
    if do is not overwritten:  # of that only a look at the content tells
        assert all_aborted(log) == [*ABORTED, (5, 8), (5, 10)]
    log.close()
    check_reopened(path, 12, [*ABORTED, (5, 8), (5, 10)])


@pytest.mark.parametrize("do", [removed, overwritten])
def test_a_lost_index_is_rebuilt_without_the_snapshots_of_producers(
    do: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "t-0"
    log = with_aborts(str(path))
    log.durability.flush()
    harm(path, do, ".snapshot")
    harm(path, removed, ".txnindex")
    assert all_aborted(log) == ABORTED


@pytest.mark.parametrize("do", [cut, overwritten])
def test_an_index_that_cannot_be_right_is_rebuilt_after_a_clean_close(
    do: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "t-0"
    with_aborts(str(path)).close()
    harm(path, do, ".txnindex")
    check_reopened(path, 8, ABORTED)


def test_the_index_is_rebuilt_with_the_others_of_its_segment(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    with_aborts(str(path)).close()
    harm(path, removed, "index")
    assert not list(path.glob("*index"))
    check_reopened(path, 8, ABORTED)


def test_a_lost_index_is_rebuilt_in_a_thread_only(tmp_path: Path) -> None:
    log = with_aborts(str(tmp_path / "t-0"))
    harm(tmp_path / "t-0", emptied, ".txnindex")
    fetched = log.reader.read(0, 1 << 20, 8)
    with pytest.raises(WouldBlock):
        log.reader.aborted_transactions(0, fetched, may_block=False)
    assert log.reader.aborted_transactions(0, fetched)
    assert log.state.segments[0].txn_index.intact


class ColdFile(MemoryFile):
    """A file of which nothing is in the page cache."""

    def pread(self, length: int, position: int) -> bytes:
        if reads.non_blocking:
            raise WouldBlock
        return super().pread(length, position)


class ColdDisk(MemoryDisk):
    def open(self, path: str) -> MemoryFile:
        return (ColdFile if path.endswith(".txnindex") else MemoryFile)(self, path)


def test_a_cold_index_is_read_in_a_thread_only() -> None:
    log = open_log(ColdDisk())
    send(log, 1)
    end_transaction(log, 1, commit=False)
    fetched = log.reader.read(0, 1 << 20, 2)
    with pytest.raises(WouldBlock):
        log.reader.aborted_transactions(0, fetched, may_block=False)
    assert not reads.non_blocking
    assert [a.producer_id for a in log.reader.aborted_transactions(0, fetched)] == [1]


class BusyFile(MemoryFile):
    """A file that others read while it is written to."""

    meanwhile: Callable[[], None] | None = None

    def pwrite(self, data: Data, position: int) -> None:
        if self.meanwhile is not None:
            self.meanwhile()
        super().pwrite(data, position)


class BusyDisk(MemoryDisk):
    def open(self, path: str) -> MemoryFile:
        return (BusyFile if path.endswith(".txnindex") else MemoryFile)(self, path)


def test_an_index_that_is_just_written_to_is_not_lost() -> None:
    log = open_log(BusyDisk())
    for producer_id in (1, 2):
        send(log, producer_id)
    end_transaction(log, 1, commit=False)
    index, read = log.state.segments[0].txn_index, list[AbortedTxn]()
    assert isinstance(index.file, BusyFile)
    index.file.meanwhile = lambda: read.extend(index.all())
    end_transaction(log, 2, commit=False)
    assert [a.producer_id for a in read] == [1]
    assert index.intact and [a.producer_id for a in index.all()] == [1, 2]


def test_the_name_of_the_index_is_durable_with_what_is_in_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    durable(disk)
    send(log, 1)
    log.durability.flush()
    end_transaction(log, 1, commit=False)
    log.durability.flush()
    disk.crash()
    assert f"{0:020d}.txnindex" in disk.list(PATH)


def test_a_marker_that_is_none_is_refused_before_it_is_written() -> None:
    """A marker changes the producer's state after the write, when it is too late to refuse it."""
    log = open_log(MemoryDisk())
    send(log, 5)

    def odd(offset: int) -> bytearray:
        record = (NOW, b"\0", b"", ())
        return build_batch([record], offset, 0, 5, 0, transactional=True, control=True)

    before = make_batch(base_offset=1, leader_epoch=0)
    for data, end in ((odd(1), 1), (before + odd(2), 2)):
        with pytest.raises(KafkaError) as raised:
            log.appender.append_as_follower(data, NOW)
        assert raised.value.code == ErrorCode.INVALID_RECORD
        assert log.state.log_end_offset == end
    assert log.state.last_stable_offset(2) == 0, "the transaction is open"
