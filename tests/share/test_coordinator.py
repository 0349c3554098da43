"""The answers and records of the share coordinator's machine, and what survives a restart."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from share.coordinator import KEY, KEY_1, START_MS, TOPIC_ID, Coordinator, image

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.meta.image import Changes, MetadataImage, TopicImage
from pk.core.share.batches import StateBatch, combine
from pk.core.share.coordinator import (
    UNINITIALIZED,
    ReadState,
    ShareCoordinatorSettings,
    StateSummary,
)
from pk.core.share.records import Record, ShareKey, Snapshot, Update, decode_record, encode_record

E = ErrorCode
MINUTE_MS = 60_000
ELSEWHERE = ShareKey("g", bytes(15) + b"\x01", 0)


@pytest.fixture
def c() -> Coordinator:
    return Coordinator()


def kinds(c: Coordinator) -> list[str]:
    """The types of the log's records, in order."""
    found = [decode_record(*entry) for entry in c.log.values()]
    return [type(one.value).__name__ for one in found if one is not None]


# --- batches ---

BATCHES = st.lists(
    st.tuples(
        st.integers(0, 12), st.integers(0, 5), st.sampled_from([0, 2, 4]), st.integers(1, 3)
    ).map(lambda t: StateBatch(t[0], t[0] + t[1], t[2], t[3]))
)


@given(before=BATCHES, after=BATCHES, start_offset=st.integers(-1, 15))
def test_of_overlapping_batches_the_one_counts_that_is_further(
    before: list[StateBatch], after: list[StateBatch], start_offset: int
) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in before + after:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            further = (batch.delivery_count, batch.delivery_state)
            expected[offset] = max(expected.get(offset, further), further)
    found = combine(before, after, start_offset)
    got = {
        offset: (one.delivery_count, one.delivery_state)
        for one in found
        for offset in range(one.first_offset, one.last_offset + 1)
    }
    assert got == expected
    for one, following in pairwise(found):
        assert one.last_offset < following.first_offset
        assert one.last_offset + 1 < following.first_offset or one[2:] != following[2:]


# --- records ---


def test_records_have_the_bytes_of_kafka() -> None:
    topic_id = TOPIC_ID.hex()
    batch = StateBatch(5, 7, 2, 1)
    snapshot = Record(KEY, Snapshot(1, 2, 3, 4, 9, (batch,), 0x10, 0x20))
    key, value = encode_record(snapshot)
    assert key.hex() == f"0000000167{topic_id}00000000"
    assert value is not None
    assert value.hex() == (
        "0000"  # version
        "00000001"  # snapshot epoch
        "00000002"  # state epoch
        "00000003"  # leader epoch
        "0000000000000004"  # start offset
        "0000000000000010"  # created
        "0000000000000020"  # written
        "02"  # one batch
        "00000000000000050000000000000007020001"
        "00"
        "01000400000009"  # tag 0: delivery complete count
    )
    key, value = encode_record(Record(KEY, Update(1, -1, -1, -1, (batch,))))
    assert key.hex() == f"0001000167{topic_id}00000000"
    assert value is not None
    assert value.hex() == (
        "0000"
        "00000001"
        "ffffffff"
        "ffffffffffffffff"
        "02"
        "00000000000000050000000000000007020001"
        "00"
        "00"  # a count of -1 is the default, and not written
    )
    assert encode_record(Record(KEY, None)) == (encode_record(snapshot)[0], None)


def test_a_record_of_an_unknown_type_is_skipped_and_damage_is_refused() -> None:
    assert decode_record(b"\x00\x07rest", b"") is None
    key, _ = encode_record(Record(KEY, Update(0, 0, 0, 0)))
    for damaged in (None, b"\x00", b"\x00\x09", b"\x00\x00\x00"):
        with pytest.raises(ProtocolError):
            decode_record(key, damaged)


# --- refusals ---


def initialize(c: Coordinator, key: ShareKey) -> None:
    c.initialize(key)


def read(c: Coordinator, key: ShareKey) -> None:
    c.read(key)


def write(c: Coordinator, key: ShareKey) -> None:
    c.write(key=key)


REQUESTS = pytest.mark.parametrize(
    "request_of", [initialize, read, write, Coordinator.summary, Coordinator.delete]
)


@REQUESTS
@pytest.mark.parametrize("key", [ShareKey("g", TOPIC_ID, -1), ShareKey("g", bytes(16), -2)])
def test_what_names_no_partition_is_refused(
    c: Coordinator, request_of: Callable[[Coordinator, ShareKey], object], key: ShareKey
) -> None:
    with pytest.raises(KafkaError) as e:
        request_of(c, key)
    assert e.value.code == E.INVALID_REQUEST


@pytest.mark.parametrize("request_of", [initialize, Coordinator.summary, Coordinator.delete])
@pytest.mark.parametrize("key", [ELSEWHERE, KEY._replace(partition=2)])
def test_a_partition_that_does_not_exist_is_refused(
    c: Coordinator, request_of: Callable[[Coordinator, ShareKey], object], key: ShareKey
) -> None:
    with pytest.raises(KafkaError) as e:
        request_of(c, key)
    assert e.value.code == E.UNKNOWN_TOPIC_OR_PARTITION


def test_what_was_not_initialized_cannot_be_read_or_written(c: Coordinator) -> None:
    for request_of in (read, write):
        with pytest.raises(KafkaError, match="uninitialized share partition not allowed") as e:
            request_of(c, KEY)
        assert e.value.code == E.INVALID_REQUEST
    assert c.summary() == UNINITIALIZED
    c.delete()
    assert not c.log


@pytest.mark.parametrize("batch", [StateBatch(3, 2, 0, 1), StateBatch(-5, 2, 0, 1)])
def test_a_batch_without_a_range_is_refused(c: Coordinator, batch: StateBatch) -> None:
    c.initialize()
    with pytest.raises(KafkaError) as e:
        c.write(batch)
    assert e.value.code == E.INVALID_REQUEST


def test_a_new_leader_fences_the_old_one(c: Coordinator) -> None:
    c.initialize()
    c.read(leader_epoch=4)
    c.write(leader_epoch=4)
    for request_of in (lambda: c.write(leader_epoch=3), lambda: c.read(leader_epoch=3)):
        with pytest.raises(KafkaError) as e:
            request_of()
        assert e.value.code == E.FENCED_LEADER_EPOCH
    c.fail_over()
    with pytest.raises(KafkaError) as e:
        c.write(leader_epoch=3)
    assert e.value.code == E.FENCED_LEADER_EPOCH


def test_a_new_state_epoch_fences_the_old_one_and_forgets_its_records(c: Coordinator) -> None:
    c.initialize(start_offset=0)
    c.write(StateBatch(0, 3, 2, 1))
    c.initialize(state_epoch=1, start_offset=2)
    assert c.read(leader_epoch=-1) == ReadState(1, 2, ())
    for request_of in (c.write, c.initialize):
        with pytest.raises(KafkaError) as e:
            request_of(state_epoch=0)
        assert e.value.code == E.FENCED_STATE_EPOCH
    c.initialize(state_epoch=1, start_offset=5)
    assert c.summary() == StateSummary(1, 0, 5, 0)


def test_a_repeated_initialization_forgets_nothing(c: Coordinator) -> None:
    c.initialize(state_epoch=2, start_offset=-1)
    c.read(leader_epoch=4)
    c.write(StateBatch(0, 3, 2, 1), state_epoch=2, leader_epoch=4, start_offset=0)
    known = c.read(leader_epoch=-1)
    c.initialize(state_epoch=2, start_offset=-1)
    assert c.read(leader_epoch=-1) == known == ReadState(2, 0, (StateBatch(0, 3, 2, 1),))
    with pytest.raises(KafkaError) as e:
        c.write(leader_epoch=3, state_epoch=2)
    assert e.value.code == E.FENCED_LEADER_EPOCH
    c.initialize(state_epoch=3, start_offset=-1)
    assert c.read(leader_epoch=-1) == ReadState(3, -1, ())


def test_a_refused_request_writes_nothing(c: Coordinator) -> None:
    c.initialize()
    c.read(leader_epoch=2)
    log = dict(c.log)
    with pytest.raises(KafkaError):
        c.write(StateBatch(0, 1, 2, 1), leader_epoch=1)
    assert c.log == log


# --- stored state ---


def test_writes_merge_and_the_start_offset_cuts_off(c: Coordinator) -> None:
    c.initialize(start_offset=0)
    c.write(StateBatch(0, 4, 2, 1), StateBatch(5, 9, 0, 1), start_offset=0, count=5)
    c.write(StateBatch(7, 8, 2, 2), start_offset=3, count=4)
    expected = ReadState(
        0,
        3,
        (
            StateBatch(3, 4, 2, 1),
            StateBatch(5, 6, 0, 1),
            StateBatch(7, 8, 2, 2),
            StateBatch(9, 9, 0, 1),
        ),
    )
    assert c.read() == expected
    assert c.summary() == StateSummary(0, 0, 3, 4)
    c.fail_over()
    assert c.read() == expected


def test_where_a_group_begins_may_be_left_to_the_leader(c: Coordinator) -> None:
    c.initialize(start_offset=-1)
    assert c.summary() == StateSummary(0, 0, -1, -1)
    c.write(start_offset=17)
    assert c.read().start_offset == 17
    c.write(StateBatch(18, 18, 2, 1), start_offset=-1)
    assert c.read() == ReadState(0, 17, (StateBatch(18, 18, 2, 1),))


def test_a_write_that_arrives_late_does_not_move_the_start_offset_back(c: Coordinator) -> None:
    c.initialize()
    c.write(StateBatch(0, 9, 2, 1), start_offset=10, count=0)
    c.write(StateBatch(8, 12, 2, 1), start_offset=0, count=9)
    assert c.read() == ReadState(0, 10, (StateBatch(10, 12, 2, 1),))
    assert c.summary() == StateSummary(0, 0, 10, 0)


def test_a_write_that_arrives_late_does_not_move_the_count_back(c: Coordinator) -> None:
    c.initialize()
    c.write(StateBatch(0, 1, 2, 1), count=2)
    c.write(StateBatch(3, 4, 2, 1), count=4)
    c.write(StateBatch(0, 1, 2, 1), count=2)
    assert c.summary() == StateSummary(0, 0, 0, 4)


def test_a_record_that_is_delivered_again_counts_as_done_no_more(c: Coordinator) -> None:
    c.initialize()
    c.write(StateBatch(0, 1, 2, 1), count=2)  # stored, but the leader did not hear it
    c.write(StateBatch(0, 1, 0, 2), count=0)
    assert c.summary() == StateSummary(0, 0, 0, 0)


def test_a_read_writes_only_where_it_brings_a_new_leader_epoch(c: Coordinator) -> None:
    c.initialize()
    for leader_epoch in (-1, 0):
        c.read(leader_epoch=leader_epoch)
    assert kinds(c) == ["Snapshot"]
    c.write(count=3)
    c.read(leader_epoch=1)
    c.read(leader_epoch=1)
    assert kinds(c) == ["Snapshot", "Update", "Update"]
    assert c.summary() == StateSummary(0, 1, 0, 3)


def test_a_write_does_not_change_the_leader_epoch(c: Coordinator) -> None:
    c.initialize()
    c.write(leader_epoch=9)
    assert c.summary().leader_epoch == 0


def test_after_so_many_updates_comes_a_snapshot_with_everything() -> None:
    c = Coordinator(ShareCoordinatorSettings(updates_per_snapshot=2))
    c.initialize()
    for offset in range(6):
        c.write(StateBatch(offset * 2, offset * 2, 2, 1))
    assert kinds(c) == ["Snapshot", "Update", "Update", "Snapshot", "Update", "Update", "Snapshot"]
    last = decode_record(*c.log[6])
    assert last is not None and isinstance(last.value, Snapshot)
    assert last.value.snapshot_epoch == 2
    assert [one.first_offset for one in last.value.batches] == [0, 2, 4, 6, 8, 10]


def test_no_updates_a_snapshot_makes_each_write_a_snapshot() -> None:
    c = Coordinator(ShareCoordinatorSettings(updates_per_snapshot=0))
    c.initialize()
    c.write()
    assert kinds(c) == ["Snapshot", "Snapshot"]


def test_what_is_deleted_is_gone_and_can_begin_again(c: Coordinator) -> None:
    c.initialize(state_epoch=5)
    c.delete()
    assert kinds(c)[-1] == "NoneType"
    assert c.summary() == UNINITIALIZED
    c.initialize(state_epoch=0)
    c.fail_over()
    assert c.summary() == StateSummary(0, 0, 0, 0)


def test_a_topic_that_is_deleted_takes_its_state_with_it(c: Coordinator) -> None:
    c.initialize()
    c.initialize(KEY_1)
    found = Changes(topics_deleted=[TopicImage("t", TOPIC_ID)])
    c.take(c.machine.follow(MetadataImage(), found, c.now_ms))
    assert not c.machine.states
    other = Changes(topics_deleted=[TopicImage("u", ELSEWHERE.topic_id)])
    assert not c.machine.follow(image(), other, c.now_ms).records


# --- pruning ---


def test_what_precedes_every_snapshot_is_pruned() -> None:
    c = Coordinator(ShareCoordinatorSettings(2, cold_snapshot_interval_ms=60 * MINUTE_MS))
    c.initialize()
    c.initialize(KEY_1)
    for key in (KEY, KEY_1):
        for offset in range(3):
            c.write(StateBatch(offset, offset, 2, 1), key=key)
    states = dict(c.machine.states)
    assert kinds(c).count("Snapshot") == 4
    c.after(4 * MINUTE_MS)
    assert min(c.log) == 0
    c.after(MINUTE_MS)
    assert min(c.log) == 4
    c.fail_over()
    assert c.machine.states == states


def test_a_share_partition_without_writes_does_not_hold_up_pruning(c: Coordinator) -> None:
    c.initialize()
    c.initialize(KEY_1)
    c.after(5 * MINUTE_MS - 1)
    for offset in range(10):
        c.write(StateBatch(offset, offset, 2, 1))
    c.after(6 * MINUTE_MS)
    assert min(c.log) >= 2
    last = decode_record(*c.log[max(c.log)])
    assert last is not None and isinstance(last.value, Snapshot)
    assert last.value.created_ms == START_MS < last.value.written_ms
    end = c.end_offset
    c.after(60 * MINUTE_MS)
    assert c.end_offset == end, "idle state is written again and again"


def test_a_log_without_state_is_pruned_to_its_end(c: Coordinator) -> None:
    c.initialize()
    c.delete()
    c.after(5 * MINUTE_MS)
    assert not c.log


# --- histories ---

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 1), BATCHES, st.integers(-1, 12)),
        st.tuples(st.just("initialize"), st.integers(0, 1), st.just([]), st.integers(-1, 12)),
        st.tuples(st.just("read"), st.integers(0, 1), st.just([]), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.integers(0, 1), st.just([]), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.just([]), st.integers(1, 7)),
    )
)


@given(steps=STEPS, updates=st.integers(0, 3))
def test_another_coordinator_comes_to_the_same(
    steps: list[tuple[str, int, list[StateBatch], int]], updates: int
) -> None:
    c = Coordinator(ShareCoordinatorSettings(updates_per_snapshot=updates))
    for verb, partition, batches, number in steps:
        key = KEY._replace(partition=partition)
        try:
            match verb:
                case "write":
                    c.write(*batches, key=key, leader_epoch=-1, start_offset=number)
                case "initialize":
                    c.initialize(key, start_offset=number)
                case "read":
                    c.read(key, number)
                case "delete":
                    c.delete(key)
                case _:
                    c.after(number * MINUTE_MS)
        except KafkaError as e:
            assert e.code in (E.INVALID_REQUEST, E.FENCED_LEADER_EPOCH)
        before = {one: state.snapshot for one, state in c.machine.states.items()}
        c.fail_over()
        assert {one: state.snapshot for one, state in c.machine.states.items()} == before
