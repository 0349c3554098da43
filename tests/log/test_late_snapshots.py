"""The snapshot of many producers: a roll freezes them, the next flush writes what they were."""

import gc
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log.support import NOW, PATH, append, durable, end_transaction, make_batch, open_log

from pk.core.log import durability, producers
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryDisk
from pk.core.log.producers import Producers, ProducerState
from pk.core.record.batch import read_header


def sent(known: Producers, producer_id: int, offset: int, *, transactional: bool = False) -> None:
    """One more record of a producer."""
    state = known.get(producer_id)
    sequence = 0 if state is None else state.last_sequence + 1
    batch = make_batch(
        producer_id=producer_id, producer_epoch=0, sequence=sequence, transactional=transactional
    )
    known.update(read_header(batch), offset, NOW, NOW)


def with_producers(count: int) -> Log:
    log = open_log()
    append(log)
    for producer_id in range(count):
        sent(log.state.producers, producer_id, 0)
    return log


@given(
    before=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=12),
    meanwhile=st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=12),
    a_pair=st.booleans(),
)
def test_what_changes_while_a_thread_reads_is_written_as_it_was(
    before: list[tuple[int, bool]], meanwhile: list[tuple[int, bool]], a_pair: bool
) -> None:
    known = Producers()
    for offset, (producer_id, transactional) in enumerate(before):
        sent(known, producer_id, offset, transactional=transactional)
    expected = known.snapshot()
    frozen = [known.freeze() for _ in range(1 + a_pair)]
    left = list(enumerate(meanwhile, 100))
    entry_of = producers._entry

    def entry(state: ProducerState) -> bytes:
        """The loop makes changes between two reads of the thread."""
        if left and not running[0]:
            running[0] = True
            offset, (producer_id, transactional) = left.pop()
            sent(known, producer_id, offset, transactional=transactional)
            if transactional:
                known.expire(NOW + 1, 0)
            running[0] = False
        return entry_of(state)

    running = [False]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producers, "_entry", entry)
        assert [each.snapshot() for each in frozen] == [expected] * len(frozen)
    for each in frozen:
        each.release()
    sent(known, 9, 1000)
    sent(known, 9, 1001)
    assert not known._frozen


def test_a_roll_makes_no_more_steps_for_more_producers() -> None:
    def steps(count: int) -> int:
        log, calls = with_producers(count), 0

        def note(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        gc.disable()  # what a collection ends may call something
        sys.setprofile(note)
        try:
            log.segments.roll(NOW)
        finally:
            sys.setprofile(None)
            gc.enable()
        return calls

    few = steps(durability.SNAPSHOT_AT_ONCE + 1)
    assert steps(4 * durability.SNAPSHOT_AT_ONCE) == few


def test_a_flush_writes_what_a_roll_has_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_AT_ONCE", 2)
    log = with_producers(3)
    expected, path = log.state.producers.snapshot(), f"{PATH}/{1:020d}.snapshot"
    log.segments.roll(NOW)
    append(log, make_batch(producer_id=1, producer_epoch=0, sequence=1))
    assert not log.state.disk.exists(path)
    log.durability.flush(1)  # the roll is durable, the record after it is not
    assert log.state.disk.read(path) == expected
    assert log.durability.recovery_point == 1


def test_a_flush_that_finds_the_records_durable_still_writes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_AT_ONCE", 2)
    log = with_producers(3)
    log.durability.flush()
    log.segments.roll(NOW)
    log.durability.flush()
    assert log.state.disk.exists(f"{PATH}/{1:020d}.snapshot")


def test_no_snapshot_comes_back_behind_a_segment_that_was_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_AT_ONCE", 2)
    log = with_producers(3)
    for _ in range(3):
        log.segments.roll(NOW)
        append(log)
    log.segments.delete_before(3)
    log.durability.flush()
    assert [name for name in log.state.disk.list(PATH) if name.endswith(".snapshot")] == [
        f"{3:020d}.snapshot"
    ]


@pytest.mark.parametrize("flushed", [False, True])
def test_after_a_crash_the_producers_are_what_they_were(
    flushed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_AT_ONCE", 2)
    disk = MemoryDisk()
    log = open_log(disk)
    durable(disk)
    for producer_id in range(4):
        append(log, make_batch(producer_id=producer_id, producer_epoch=0, sequence=0))
    log.durability.flush()
    log.segments.roll(NOW)
    append(log, make_batch(producer_id=0, producer_epoch=0, sequence=1, transactional=True))
    if flushed:
        log.durability.flush()
    recovery_point, expected = log.durability.recovery_point, log.state.producers.active()
    if not flushed:
        expected[0] = expected[0]._replace(last_sequence=0, current_txn_start_offset=-1)
    disk.crash()
    found = open_log(disk, recovery_point=recovery_point)
    assert found.state.producers.active() == expected


def test_a_cut_finds_what_was_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "SNAPSHOT_AT_ONCE", 2)
    log = open_log()
    for producer_id in range(4):
        append(
            log,
            make_batch(producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True),
        )
    end_transaction(log, 2, commit=True)
    expected = log.state.producers.active()
    log.segments.roll(NOW)
    append(log, make_batch(producer_id=0, producer_epoch=0, sequence=1, transactional=True))
    log.segments.truncate_to(5)
    assert log.state.producers.active() == expected
    assert log.state.disk.exists(f"{PATH}/{5:020d}.snapshot")
