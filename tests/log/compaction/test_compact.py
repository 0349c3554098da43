"""Compaction: which records stay, which are deleted, and when."""

from itertools import pairwise

import pytest
from log.compaction.support import (
    ALWAYS,
    SMALL,
    Write,
    compact,
    keyed,
    pairs_of,
    put,
    records_of,
    small_log,
)
from log.support import NOW, append, end_transaction, headers_of, open_log

from pk.core.log.compaction.compact import Cleaned, clean
from pk.core.log.compaction.job import CompactionConfig, cleanable, make_job
from pk.core.log.disk import MemoryDisk
from pk.core.log.log import Origin
from pk.core.record.batch import CorruptBatch
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec


@pytest.mark.parametrize("codec", list(Codec))
def test_the_last_value_of_a_key_stays_under_its_offset(codec: Codec) -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    put(log, ("a", "1"), ("b", "1"), ("a", "2"), codec=codec)
    put(log, ("c", "1"), ("b", "2"), codec=codec)
    log.segments.roll(NOW)
    put(log, ("a", "3"), codec=codec)
    log.segments.roll(NOW)
    put(log, ("c", "9"), codec=codec)
    before = {h.last_offset for h in headers_of(log)}
    assert compact(log, disk)
    assert pairs_of(log) == [(3, "c", "1"), (4, "b", "2"), (5, "a", "3"), (6, "c", "9")]
    assert {h.last_offset for h in headers_of(log)} <= before, "batches end where they ended"
    assert all(h.codec == codec for h in headers_of(log) if h.count)
    assert len(log.state.segments) == 2, "two segments became one"
    assert log.segments.first_dirty_offset == 6
    assert compact(log, disk) is None, "the active segment is left alone"
    assert [r.timestamp for r in records_of(log)] == [NOW, NOW + 1, NOW, NOW]


def test_a_tombstone_stays_for_its_time_and_keeps_its_timestamp() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None), ("x", "1"))
    log.segments.roll(NOW)
    put(log, ("y", "1"))
    compact(log, disk, now_ms=NOW)
    assert pairs_of(log)[:2] == [(1, "b", "1"), (2, "a", None)]
    horizon = next(h.delete_horizon_ms for h in headers_of(log) if h.base_offset == 2)
    assert horizon is not None and horizon == NOW + ALWAYS.delete_retention_ms
    assert [r.timestamp for r in records_of(log)][:3] == [NOW + 1, NOW, NOW + 1]
    log.segments.roll(NOW)
    compact(log, disk, now_ms=horizon - 1)
    assert (2, "a", None) in pairs_of(log)
    put(log, ("z", "1"))
    log.segments.roll(NOW)
    compact(log, disk, now_ms=horizon)
    assert pairs_of(log) == [(1, "b", "1"), (3, "x", "1"), (4, "y", "1"), (5, "z", "1")]
    assert [r.timestamp for r in records_of(log)][:2] == [NOW + 1, NOW + 1]


def test_records_without_a_key_go() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    append(log, build_batch([(NOW, None, b"lost", ()), (NOW, b"a", b"1", ())]))
    log.segments.roll(NOW)
    assert compact(log, disk)
    assert pairs_of(log) == [(1, "a", "1")]


def test_a_full_map_takes_several_rounds() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    for i in range(40):
        put(log, (f"k{i % 20}", str(i)), (f"j{i}", str(i)))
    log.segments.roll(NOW)
    rounds = []
    while done := compact(log, disk, keys_max=15):
        rounds.append(done)
        if not done.full:
            break
    assert len(rounds) > 3 and rounds[-1].first_dirty_offset == 80
    assert all(a.first_dirty_offset < b.first_dirty_offset for a, b in pairwise(rounds))
    expected = {f"k{i % 20}": str(i) for i in range(40)} | {f"j{i}": str(i) for i in range(40)}
    assert {k: v for _, k, v in pairs_of(log)} == expected
    assert len(pairs_of(log)) == 60


def test_aborted_records_go_and_their_marker_after_its_time() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    put(log, ("a", "1"))
    append(log, keyed([Write(b"a", b"no")], producer_id=5, sequence=0, transactional=True))
    end_transaction(log, 5, commit=False)
    append(log, keyed([Write(b"b", b"yes")], producer_id=6, sequence=0, transactional=True))
    end_transaction(log, 6, commit=True)
    append(log, keyed([Write(b"c", b"1")], producer_id=5, sequence=1, transactional=True))
    end_transaction(log, 5, commit=True)
    log.segments.roll(NOW)
    put(log, ("z", "1"))
    compact(log, disk)
    assert pairs_of(log) == [(0, "a", "1"), (3, "b", "yes"), (5, "c", "1"), (7, "z", "1")]
    whole = log.reader.read(0, 1 << 20, log.state.log_end_offset)
    markers = lambda: [h.base_offset for h in headers_of(log) if h.is_control and h.count]
    assert markers() == [2, 4, 6], "while there was something of the transaction"
    assert [a.producer_id for a in log.reader.aborted_transactions(0, whole)] == [5]
    for later in (1, ALWAYS.delete_retention_ms + 2):
        put(log, ("z", "2"))
        log.segments.roll(NOW)
        compact(log, disk, now_ms=NOW + later)
    assert markers() == [4, 6], "the aborted one has nothing left, the others have"
    assert (
        log.reader.aborted_transactions(0, log.reader.read(0, 1 << 20, log.state.log_end_offset))
        == []
    )
    log.close()
    again = small_log(disk, recovery_point=log.durability.recovery_point)
    assert [(p.producer_id, p.last_sequence) for p in again.state.producers.active()] == [
        (5, 1),
        (6, 0),
    ]


def test_a_deleted_key_stays_away_though_its_producer_aborted_before() -> None:
    disk = MemoryDisk()
    log = small_log(disk)

    def transaction(sequence: int, write: Write, *, commit: bool) -> None:
        append(log, keyed([write], producer_id=5, sequence=sequence, transactional=True))
        end_transaction(log, 5, commit=commit)

    transaction(0, Write(b"a", b"no"), commit=False)
    put(log, ("a", "1"))
    transaction(1, Write(b"b", b"1"), commit=True)
    log.segments.roll(NOW)
    compact(log, disk)
    assert pairs_of(log) == [(2, "a", "1"), (3, "b", "1")]
    transaction(2, Write(b"a", None), commit=True)
    log.segments.roll(NOW)
    compact(log, disk)
    assert pairs_of(log) == [(3, "b", "1"), (5, "a", None)]
    put(log, ("z", "1"))
    log.segments.roll(NOW)
    compact(log, disk, now_ms=NOW + ALWAYS.delete_retention_ms)
    assert pairs_of(log) == [(3, "b", "1"), (7, "z", "1")]


def test_the_last_sequence_of_an_active_producer_stays_in_an_empty_batch() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    append(log, keyed([Write(b"a", b"1")], producer_id=5, sequence=0))
    append(log, keyed([Write(b"a", b"2")], producer_id=5, sequence=1))
    put(log, ("a", "3"))
    log.segments.roll(NOW)
    compact(log, disk)
    assert [(h.base_offset, h.count, h.base_sequence) for h in headers_of(log)] == [
        (1, 0, 1),
        (2, 1, -1),
    ]
    log.close()
    log = small_log(disk)
    state = log.state.producers.get(5)
    assert state is not None and state.last_sequence == 1
    assert append(log, keyed([Write(b"a", b"2")], producer_id=5, sequence=1)).duplicate
    assert pairs_of(log) == [(2, "a", "3")]


def test_undecided_and_young_records_are_left_alone() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    for i in range(4):
        append(log, keyed([Write(b"a", b"%d" % i)], timestamp=NOW + 100 * i))
        log.segments.roll(NOW)
    assert cleanable(log, ALWAYS, 2, NOW) == (0, 2, 1.0, False)
    young = CompactionConfig(min_dirty_ratio=0, min_lag_ms=150)
    assert cleanable(log, young, 4, NOW + 260) == (0, 2, 1.0, False)
    assert cleanable(log, young, 4, NOW) is None
    overdue = CompactionConfig(min_dirty_ratio=1, max_lag_ms=50)
    found = cleanable(log, overdue, 4, NOW + 51)
    assert found is not None and found.overdue
    found = cleanable(log, overdue, 4, NOW + 50)
    assert found is not None and not found.overdue


def test_the_dirty_ratio_is_of_what_can_be_compacted() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    for i in range(4):
        put(log, (f"k{i}", "v"))
        log.segments.roll(NOW)
    log.segments.first_dirty_offset = 3
    assert cleanable(log, ALWAYS, 4, NOW) == (3, 4, 0.25, False)
    log.segments.first_dirty_offset = 4
    assert cleanable(log, ALWAYS, 4, NOW) is None
    log.segments.first_dirty_offset = 9
    assert cleanable(log, ALWAYS, 4, NOW) == (0, 4, 1.0, False), "a note that cannot be true"


def test_a_log_that_changed_meanwhile_is_not_swapped() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    for i in range(3):
        put(log, ("a", str(i)))
        log.segments.roll(NOW)
    found = cleanable(log, ALWAYS, 3, NOW)
    assert found is not None
    steps = clean(disk, make_job(log, found, ALWAYS, NOW, 1000))
    cleaned = next(step for step in steps if isinstance(step, Cleaned))
    log.segments.delete_before(1)
    assert not log.segments.swap_in(cleaned.base_offset, cleaned.replaced, cleaned.sizes)
    assert pairs_of(log) == [(1, "a", "1"), (2, "a", "2")]


def test_a_reader_in_flight_reads_the_old_segment() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.segments.roll(NOW)
    old = log.state.segments[0].file
    size = log.state.segments[0].size
    compact(log, disk)
    assert len(old.pread(1 << 20, 0)) == size > log.state.segments[0].size
    assert log.segments.remove_deleted() == 3


def test_what_is_damaged_is_not_compacted() -> None:
    disk = MemoryDisk()
    log = small_log(disk)
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.segments.roll(NOW)
    log.state.segments[0].file.pwrite(b"\xff", 65)
    with pytest.raises(CorruptBatch, match="position 0"):
        compact(log, disk)
    assert log.state.segments[0].size and log.segments.first_dirty_offset is None


def test_a_coordinators_log_compacts_too() -> None:
    log = open_log(disk := MemoryDisk(), config=SMALL)
    for i in range(30):
        append(log, keyed([Write(b"group", b"%d" % i)]), origin=Origin.COORDINATOR)
    log.segments.roll(NOW)
    compact(log, disk)
    assert pairs_of(log) == [(29, "group", "29")]
