"""The log after a crash: a prefix of whole batches, never shorter than what was synced, and a state
that matches it."""

from collections.abc import Callable
from zlib import crc32

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log.support import (
    NOW,
    PATH,
    append,
    durable,
    end_transaction,
    headers_of,
    make_batch,
    open_log,
)

from pk.core.errors import KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.damaged import Damage
from pk.core.log.disk import MemoryDisk
from pk.core.log.epochs import EpochStart
from pk.core.log.index import OFFSET_ENTRY, TIME_ENTRY
from pk.core.log.log import Log
from pk.core.record.batch import HEADER_BYTES, iter_headers

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=100, segment_index_bytes=1200)
"""Indexes so small that the memory disk has their holes too."""


def idempotent(sequence: int, count: int = 1, size: int = 20) -> bytearray:
    return make_batch(
        count,
        size=size,
        timestamp=NOW + sequence,
        producer_id=7,
        producer_epoch=0,
        sequence=sequence,
    )


def check_consistent(log: Log, batches: list[tuple[int, int]]) -> None:
    """`batches` are (base offset, next offset) of those that were appended, in order."""
    found = [(h.base_offset, h.next_offset) for h in headers_of(log)]
    assert found == batches[: len(found)], "a prefix, whole"
    assert log.state.log_end_offset == (
        found[-1][1] if found else log.state.segments[-1].base_offset
    )
    for base, following in found:
        assert log.reader.read(base, 1 << 20, log.state.log_end_offset).base_offset == base
        assert log.reader.read(following - 1, 1, log.state.log_end_offset).base_offset == base
    state = log.state.producers.get(7)
    assert (state.last_offset if state else -1) == log.state.log_end_offset - 1
    check_indexes(log)


def check_indexes(log: Log) -> None:
    """Every entry points to a batch with its offset or timestamp, as Apache's dump tool checks."""
    log.close()
    for segment in log.state.segments:
        places = {p: h for p, h in segment.headers()}
        content = segment.index.file.pread(1 << 20, 0) if segment.size else b""
        for offset, position in OFFSET_ENTRY.iter_unpack(content):
            assert places[position].last_offset == segment.base_offset + offset
        content = segment.time_index.file.pread(1 << 20, 0) if segment.size else b""
        last = -1
        for timestamp, offset in TIME_ENTRY.iter_unpack(content):
            batch = next(
                h for h in places.values() if h.last_offset == segment.base_offset + offset
            )
            assert batch.max_timestamp == timestamp > last
            assert all(
                h.max_timestamp <= timestamp
                for h in places.values()
                if h.last_offset <= segment.base_offset + offset
            )
            last = timestamp


@pytest.mark.parametrize("zeroed", [False, True], ids=["cut", "zeroed"])
def test_the_last_two_batches_torn_at_every_byte(zeroed: bool) -> None:
    size = 0
    cut = -1
    while cut < size:
        disk = MemoryDisk()
        log = open_log(disk, config=CONFIG)
        append(log, idempotent(0, 3), epoch=1)
        durable(disk)
        log.durability.flush()
        append(log, idempotent(3, 2), epoch=1)
        middle = log.state.size
        append(log, idempotent(5, 4), epoch=2)
        path = f"{PATH}/{0:020d}.log"
        size = disk.unsynced_bytes(path)
        written = disk.read(path)
        cut += 1
        disk.crash(cut, zeroed=zeroed)
        left = disk.read(path)
        log = open_log(disk, config=CONFIG, recovery_point=3)
        expected = 9 if left == written else 5 if left[:middle] == written[:middle] else 3
        assert log.state.log_end_offset == expected
        assert log.state.epochs.latest == (2 if expected == 9 else 1)
        state = log.state.producers.get(7)
        assert state is not None and state.last_sequence == expected - 1
        assert append(log, idempotent(expected)).base_offset == expected
        assert append(log, idempotent(0, 3)).duplicate


@pytest.mark.parametrize("step", [1, 7])
def test_the_file_itself_cut_or_zeroed_at_every_byte(step: int) -> None:
    """After kill -9 and a broken disk, even data that was written long ago may be gone."""
    content = bytearray()
    for i in range(3):
        content += make_batch(2, timestamp=NOW, base_offset=2 * i, leader_epoch=0)
    size = len(content) // 3
    for at in range(0, len(content), step):
        for damaged in (content[:at], content[:at] + bytes(len(content) - at)):
            disk = MemoryDisk()
            disk.make(PATH)
            disk.open(f"{PATH}/{0:020d}.log").pwrite(damaged, 0)
            log = open_log(disk)
            whole = sum(damaged[: i * size] == content[: i * size] for i in (1, 2, 3))
            assert log.state.log_end_offset == 2 * whole
            assert disk.open(f"{PATH}/{0:020d}.log").size() == whole * size
            assert append(log).base_offset == 2 * whole


def test_every_flipped_bit_is_found() -> None:
    batches = [make_batch(1, base_offset=i, leader_epoch=0) for i in range(2)]
    content = b"".join(batches)
    size = len(batches[0])
    for bit in range(size * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        if bit // 8 < 8 or 12 <= bit // 8 < 16:
            # Base offset and leader epoch lie outside of the CRC, in Kafka's format as in ours.
            continue
        disk = MemoryDisk()
        disk.make(PATH)
        disk.open(f"{PATH}/{0:020d}.log").pwrite(flipped, 0)
        assert open_log(disk).state.log_end_offset == 0, f"bit {bit}"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("big"), st.integers(1, 3)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("flush_some"), st.integers(0, 5)),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("new_epoch"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.data())
def test_any_history_then_a_crash(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    disk = MemoryDisk()
    log = open_log(disk, config=CONFIG)
    durable(disk)
    log.durability.flush(force=True)
    batches: list[tuple[int, int]] = []
    epoch, epochs, checkpoint = 0, {}, 0
    for what, number in steps:
        end = log.state.log_end_offset
        if what in ("append", "big"):
            size = 500 if what == "big" else 20
            append(log, idempotent(end, number, size), epoch=epoch)
            epochs[end] = epoch
            batches.append((end, end + number))
        elif what == "flush":
            log.durability.flush()
            checkpoint = log.durability.recovery_point if data.draw(st.booleans()) else checkpoint
        elif what == "flush_some":
            log.durability.flush(max(end - number, 0))
        elif what == "roll":
            log.segments.roll(NOW)
        elif what == "new_epoch":
            epoch += 1
            log.state.assign_epoch_start(epoch)
        elif what == "restart":
            log.close()
            checkpoint = log.durability.recovery_point
            log = open_log(disk, config=CONFIG, clean=True, recovery_point=checkpoint)
            assert log.state.log_end_offset == end
    promised = log.durability.recovery_point
    most = data.draw(st.integers(0, 3000))
    keep: Callable[[str, int], int] = lambda path, unsynced: (
        crc32(f"{path} {most}".encode()) % (unsynced + 1)
    )
    disk.crash(
        data.draw(st.sampled_from([0, most, keep])),
        zeroed=data.draw(st.booleans()),
        names=data.draw(st.sampled_from(["lost", "kept"])),
    )
    log = open_log(disk, config=CONFIG, recovery_point=checkpoint)
    assert log.state.log_end_offset >= promised, "what was synced is there"
    for base, following in batches:
        if following <= log.state.log_end_offset:
            assert log.state.epochs.epoch_of(base) == epochs[base]
    check_consistent(log, batches)


def test_recovery_below_the_recovery_point_is_not_needed() -> None:
    disk = MemoryDisk()
    log = open_log(disk, config=CONFIG)
    for i in range(60):
        append(log, idempotent(i))
    durable(disk)
    log.durability.flush()
    first = log.state.segments[0].file.path
    point = log.durability.recovery_point
    damaged = disk.open(first)
    damaged.pwrite(b"\xff", 70)
    disk.crash(names="kept")
    again = open_log(disk, config=CONFIG, recovery_point=point)
    assert again.state.log_end_offset == 60


def test_segments_behind_a_torn_one_are_dropped() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for i in range(3):
        append(log, idempotent(i))
        log.segments.roll(NOW)
    second = log.state.segments[1].file
    second.truncate(second.size() - 1)
    log = open_log(disk)
    assert log.recovered is not None and log.recovered.segments_dropped == 2
    assert (log.state.log_end_offset, len(log.state.segments)) == (1, 2)
    assert [n for n in disk.list(PATH) if n.endswith(".log")] == [f"{0:020d}.log", f"{1:020d}.log"]
    check_consistent(log, [(0, 1)])


def test_missing_and_damaged_indexes_are_rebuilt_even_after_a_clean_close() -> None:
    for damage in ("missing", "odd", "backwards"):
        disk = MemoryDisk()
        log = open_log(disk, config=CONFIG)
        for i in range(60):
            append(log, idempotent(i))
        log.close()
        for name in list(disk.list(PATH)):
            path = f"{PATH}/{name}"
            if name.endswith("index") and damage == "missing":
                disk.remove(path)
            elif name.endswith("index") and damage == "odd":
                disk.open(path).pwrite(b"x", disk.open(path).size())
            elif name.endswith(".index"):
                disk.open(path).pwrite(b"\xff" * 8, max(disk.open(path).size() - 8, 0))
        log = open_log(disk, config=CONFIG, clean=True, recovery_point=60)
        assert log.state.log_end_offset == 60
        for i in range(60):
            assert log.reader.read(i, 1, 60).base_offset == i
            assert log.reader.offset_for_time(NOW + i) == (i, NOW + i, 0)
        append(log, idempotent(60))
        check_indexes(log)


def test_a_damaged_snapshot_is_thrown_away_and_the_log_read_instead() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for i in range(5):
        append(log, idempotent(i))
        if i == 2:
            log.segments.roll(NOW)
    log.close()
    disk.open(f"{PATH}/{5:020d}.snapshot").pwrite(b"\xff", 8)
    log = open_log(disk, clean=True, recovery_point=5)
    assert append(log, idempotent(5)).base_offset == 5
    assert append(log, idempotent(4)).duplicate
    with pytest.raises(KafkaError):
        append(log, idempotent(7))


def test_aborted_transactions_are_indexed_again() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    durable(disk)
    log.durability.flush(force=True)
    append(log, make_batch(producer_id=1, producer_epoch=0, sequence=0, transactional=True))
    end_transaction(log, 1, commit=False)
    disk.crash(lambda path, unsynced: unsynced if path.endswith(".log") else 0, names="kept")
    log = open_log(disk)
    assert log.state.segments[0].txn_index.all() == [(1, 0, 1, 2)]
    assert log.state.last_stable_offset(2) == 2


def test_what_a_crash_left_half_done_is_swept() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    log.close()
    for name in ("00000000000000000007.log.deleted", "00000000000000000003.snapshot.tmp"):
        disk.open(f"{PATH}/{name}").pwrite(b"x", 0)
    disk.open(f"{PATH}/00000000000000000009.index").pwrite(bytes(8), 0)
    open_log(disk, clean=True, recovery_point=1)
    assert [n for n in disk.list(PATH) if n.startswith("0000000000000000000")] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
    ]


@pytest.mark.parametrize("appended_after_roll", [0, 1])
@pytest.mark.parametrize("zeroed", [False, True])
def test_the_seal_of_a_segment_that_was_synced_before_it_rolled(
    appended_after_roll: int, zeroed: bool
) -> None:
    """Its last index entry is written at the roll, after the sync that moved the recovery point to
    its end."""
    disk = MemoryDisk()
    log = open_log(disk, config=CONFIG)
    durable(disk)
    append(log, idempotent(0))
    append(log, idempotent(1))
    log.durability.flush()
    log.segments.roll(NOW)
    for _ in range(appended_after_roll):
        append(log, idempotent(2))
        log.durability.flush()
    point, end = log.durability.recovery_point, log.state.log_end_offset
    disk.crash(zeroed=zeroed, names="kept")
    log = open_log(disk, config=CONFIG, recovery_point=point)
    assert log.state.log_end_offset == end
    for offset in range(end):
        assert log.reader.offset_for_time(NOW + offset) == (offset, NOW + offset, 0)
    check_consistent(log, [(i, i + 1) for i in range(end)])


def test_epochs_of_a_history_that_was_cut_do_not_come_back() -> None:
    """The file may still tell of a leader whose batches were cut off; those that took their place
    say otherwise."""
    disk = MemoryDisk()
    log = open_log(disk)
    durable(disk)
    append(log, epoch=1)
    append(log, epoch=7)
    log.durability.flush()
    log.segments.truncate_to(1)
    log.appender.append_as_follower(make_batch(base_offset=1, leader_epoch=5), NOW)
    log = open_log(disk, recovery_point=1)  # killed; the written data is there
    assert log.state.log_end_offset == 2
    assert (
        log.state.epochs.epoch_of(0),
        log.state.epochs.epoch_of(1),
        log.state.epochs.latest,
    ) == (1, 5, 5)


def test_what_recovery_cut_off_does_not_come_back_behind_a_roll() -> None:
    disk = MemoryDisk()
    log = open_log(disk, config=CONFIG)
    append(log, idempotent(0))
    durable(disk)
    log.close()
    log = open_log(disk, config=CONFIG, clean=True, recovery_point=1)
    append(log, idempotent(1))
    disk.crash(5, zeroed=True)
    log = open_log(disk, config=CONFIG, recovery_point=1)
    assert log.state.log_end_offset == 1
    log.segments.roll(NOW)
    disk.crash(names="kept")
    log = open_log(disk, config=CONFIG, recovery_point=1)
    assert [(h.base_offset, h.next_offset) for h in headers_of(log)] == [(0, 1)]
    check_consistent(log, [(0, 1)])


def test_epochs_from_before_a_start_that_a_crash_forgot_come_from_the_batches() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for epoch in (3, 3, 5):
        append(log, make_batch(3), epoch=epoch)
    log.segments.roll(NOW)
    append(log, make_batch(3), epoch=7)
    log.segments.delete_before(7)
    log.durability.flush(force=True)
    assert log.state.epochs.entries == [EpochStart(5, 7), EpochStart(7, 9)]
    durable(disk)
    disk.crash()

    found = open_log(disk, recovery_point=9, log_start_offset=1)  # the start as it was noted last
    assert found.state.epochs.entries == [EpochStart(3, 1), EpochStart(5, 6), EpochStart(7, 9)]


@pytest.mark.parametrize(
    ("missing", "recovery_point"),
    [("leader-epoch-checkpoint", 9), ("00000000000000000006.snapshot", 9), ("", 6)],
    ids=["epochs", "producers", "the last entry of a time index"],
)
def test_a_damaged_header_below_the_recovery_point_is_found_if_it_is_needed(
    missing: str, recovery_point: int
) -> None:
    """The epochs and the producers come from the headers of the batches if their files are missing.
    Without the check, the log could not be opened."""
    disk = MemoryDisk()
    log = open_log(disk)
    for epoch, sequence in ((0, 0), (1, 3)):
        append(log, make_batch(3, producer_id=7, producer_epoch=0, sequence=sequence), epoch=epoch)
    segment = log.state.segments[0]
    log.segments.roll(NOW)
    append(log, make_batch(3, producer_id=7, producer_epoch=0, sequence=6), epoch=2)
    log.durability.flush(force=True)
    second = [at for at, _ in iter_headers(segment.file.pread(segment.size, 0))][1]
    durable(disk)
    disk.crash()
    if missing:
        disk.remove(f"{PATH}/{missing}")
    disk.open(f"{PATH}/00000000000000000000.log").pwrite(bytes(12), second)

    found = open_log(disk, recovery_point=recovery_point, config=LogConfig(compact=True))
    assert found.state.log_end_offset == found.state.producers.next_offset == 3
    assert found.state.epochs.entries == [EpochStart(0, 0)]
    assert found.mark is not None and found.mark.damage is Damage.CORRUPT


def test_a_damaged_marker_below_the_recovery_point_does_not_hide_the_epochs() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, make_batch(producer_id=7, producer_epoch=0, sequence=0, transactional=True))
    end_transaction(log, 7, commit=True)
    segment = log.state.segments[0]
    log.segments.roll(NOW)
    append(log, epoch=2)
    log.durability.flush(force=True)
    marker = [at for at, header in iter_headers(segment.file.pread(segment.size, 0))][1]
    durable(disk)
    disk.crash()
    disk.remove(f"{PATH}/leader-epoch-checkpoint")
    file = disk.open(f"{PATH}/00000000000000000000.log")
    file.pwrite(bytes(10), marker + HEADER_BYTES)

    found = open_log(disk, recovery_point=log.state.log_end_offset)
    assert found.state.epochs.entries == [EpochStart(0, 0), EpochStart(2, 2)]
