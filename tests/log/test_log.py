"""A log compared with a list of records under arbitrary operations, and tests of single
promises."""

import errno
from dataclasses import dataclass
from pathlib import Path

import pytest
from effort import examples
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log.support import NOW, PATH, append, durable, headers_of, make_batch, open_log

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.failures import StorageError
from pk.core.log.log import Log
from pk.core.record.batch import CorruptBatch, Timestamps, iter_headers, read_header, records
from pk.core.record.build import build_batch


@dataclass
class Kept:
    """A batch as the model remembers it."""

    base_offset: int
    timestamps: list[int]
    epoch: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.timestamps)


class LogAgainstList(RuleBasedStateMachine):
    """Appends, cuts, trims, rolls and restarts; after each step the log and the list say the
    same."""

    @initialize(
        interval=st.sampled_from([0, 100, 4096]),
        segment_bytes=st.sampled_from([400, 2000, 1 << 20]),
    )
    def start(self, interval: int, segment_bytes: int) -> None:
        self.config = LogConfig(
            index_interval_bytes=interval, segment_bytes=segment_bytes, segment_index_bytes=96
        )
        self.disk = MemoryDisk()
        self.log = open_log(self.disk, config=self.config)
        self.batches: list[Kept] = []
        self.start_offset = self.end_offset = 0
        self.epoch = 0

    @rule(timestamps=st.lists(st.integers(0, 50), min_size=1, max_size=4))
    def append(self, timestamps: list[int]) -> None:
        appended = append(self.log, make_batch(timestamps=timestamps), epoch=self.epoch)
        assert appended.base_offset == self.end_offset
        self.batches.append(Kept(self.end_offset, timestamps, self.epoch))
        self.end_offset += len(timestamps)

    @rule(gap=st.integers(0, 3), count=st.integers(1, 3), epochs=st.integers(0, 1))
    def replicate(self, gap: int, count: int, epochs: int) -> None:
        self.epoch += epochs
        base = self.end_offset + gap
        one = make_batch(count, timestamp=7, base_offset=base, leader_epoch=self.epoch)
        two = make_batch(1, timestamp=8, base_offset=base + count, leader_epoch=self.epoch)
        self.log.appender.append_as_follower(one + two + two[:30], NOW)
        self.batches += [Kept(base, [7] * count, self.epoch), Kept(base + count, [8], self.epoch)]
        self.end_offset = base + count + 1

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.state.assign_epoch_start(self.epoch)

    @rule()
    def roll(self) -> None:
        self.log.segments.roll(NOW)

    @rule(back=st.integers(0, 12))
    def cut(self, back: int) -> None:
        assume(self.end_offset - back >= self.start_offset)
        wanted = self.end_offset - back
        if wanted < self.log.state.segments[0].base_offset:
            self.start_offset = wanted  # in a gap before all that is left: the log begins there
        self.log.segments.truncate_to(wanted)
        kept = [b for b in self.batches if b.next_offset <= wanted]
        inside = [b for b in self.batches if b.base_offset < wanted < b.next_offset]
        self.batches = kept
        self.end_offset = inside[0].base_offset if inside else wanted
        self.start_offset = min(self.start_offset, self.end_offset)
        self.epoch += 1

    @rule(ahead=st.integers(0, 8))
    def trim(self, ahead: int) -> None:
        self.start_offset = min(self.start_offset + ahead, self.end_offset)
        self.log.segments.delete_before(self.start_offset)
        self.log.segments.remove_deleted()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.log.close()
        else:
            self.log.durability.flush()
        recovery_point = self.log.durability.recovery_point
        self.log = open_log(
            self.disk,
            config=self.config,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=self.start_offset,
        )
        # If a log was truncated inside a gap that compaction left, no batch shows its end. When it
        # is opened again, it ends at the last batch.
        last = (
            self.batches[-1].next_offset
            if self.batches
            else self.log.state.segments[-1].base_offset
        )
        assert min(last, self.end_offset) <= self.log.state.log_end_offset <= self.end_offset
        self.end_offset = self.log.state.log_end_offset
        self.start_offset = max(self.start_offset, self.log.state.segments[0].base_offset)
        self.start_offset = min(self.start_offset, self.end_offset)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset))
        borders = [b.base_offset for b in self.batches if b.base_offset >= self.start_offset]
        end = data.draw(st.sampled_from([*borders, self.end_offset]))
        most = data.draw(st.sampled_from([1, 150, 1000, 1 << 20]))
        minimum_one = data.draw(st.booleans())
        fetched = self.log.reader.read(offset, most, end, minimum_one=minimum_one)
        content = fetched.slice.read()
        expected = [b for b in self.batches if b.next_offset > offset and b.base_offset < end]
        if offset >= end or not expected:
            assert content == b""
            return
        found = [header for _, header in iter_headers(content)]
        assert [h.base_offset for h in found] == [b.base_offset for b in expected[: len(found)]]
        if minimum_one:
            assert found and found[0].base_offset == fetched.base_offset
            assert len(content) <= max(most, found[0].size)
        else:
            assert len(content) <= most
            assert not content or found

    @rule(timestamp=st.integers(-1, 51))
    def look_up_time(self, timestamp: int) -> None:
        expected = None
        for batch in self.batches:
            for i, time in enumerate(batch.timestamps):
                offset = batch.base_offset + i
                if time >= timestamp and offset >= self.start_offset and expected is None:
                    expected = (offset, time, batch.epoch)
        assert self.log.reader.offset_for_time(timestamp) == expected

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.state.log_end_offset == self.end_offset
        assert self.log.state.log_start_offset == self.start_offset
        assert self.log.durability.recovery_point <= self.end_offset
        present = [b for b in headers_of(self.log) if b.next_offset > self.start_offset]
        expected = [b for b in self.batches if b.next_offset > self.start_offset]
        assert [(h.base_offset, h.next_offset, h.leader_epoch) for h in present] == [
            (b.base_offset, b.next_offset, b.epoch) for b in expected
        ]

    @invariant()
    def latest_time_agrees(self) -> None:
        found = self.log.reader.max_timestamp()
        in_segments = [h.max_timestamp for h in headers_of(self.log)]
        assert (found.timestamp if found else -1) == max(in_segments, default=-1)

    @invariant()
    def epochs_agree(self) -> None:
        for batch in self.batches:
            if batch.base_offset >= self.start_offset:
                assert self.log.state.epochs.epoch_of(batch.base_offset) == batch.epoch


LogAgainstList.TestCase.settings = settings(
    max_examples=examples(120), stateful_step_count=25, deadline=None
)
TestLogAgainstList = LogAgainstList.TestCase


@pytest.mark.parametrize("records", [1, 2])
def test_an_epoch_that_began_in_a_gap_begins_where_its_first_batch_is(records: int) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    log.appender.append_as_follower(make_batch(base_offset=1, leader_epoch=0), NOW)
    log.segments.truncate_to(1)
    log.state.assign_epoch_start(2)
    log.close()
    log = open_log(disk, clean=True)
    assert log.state.log_end_offset == 0
    append(log, make_batch(records), epoch=2)
    assert log.state.epochs.epoch_of(0) == 2
    assert log.state.epochs.entries == [(2, 0)]


def test_a_log_that_is_cut_in_a_gap_before_its_segments_begins_there() -> None:
    log = open_log()
    log.appender.append_as_follower(make_batch(base_offset=2, leader_epoch=0), NOW)
    log.segments.truncate_to(2)
    log.segments.roll(NOW)
    assert (
        log.state.log_start_offset,
        log.state.segments[0].base_offset,
        log.state.log_end_offset,
    ) == (0, 2, 2)
    assert log.segments.truncate_to(1)
    assert (
        log.state.log_start_offset,
        log.state.segments[0].base_offset,
        log.state.log_end_offset,
    ) == (1, 1, 1)
    assert append(log).base_offset == 1


def code_of(log: Log, batch: bytearray) -> int:
    with pytest.raises(KafkaError) as raised:
        append(log, batch)
    assert log.state.log_end_offset == 0
    return raised.value.code


def test_what_is_wrong_with_a_batch_is_reported() -> None:
    log = open_log(config=LogConfig(max_message_bytes=500, segment_bytes=400))
    flipped = make_batch()
    flipped[70] ^= 1
    assert code_of(log, flipped) == ErrorCode.CORRUPT_MESSAGE
    assert code_of(log, make_batch() + b"more") == ErrorCode.CORRUPT_MESSAGE
    assert code_of(log, make_batch(size=500)) == ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(log, make_batch(size=380)) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.state.size == 0


def test_the_timestamps_that_were_found_inside_count() -> None:
    log = open_log()
    batch = make_batch(timestamps=[NOW - 300, NOW])
    header = read_header(batch)
    log.appender.append_as_leader(batch, header, 0, NOW, timestamps=Timestamps(NOW - 100, NOW - 50))
    assert headers_of(log)[0].max_timestamp == NOW - 50
    log.appender.append_as_follower(_moved(headers_of(log)[0].size, log), NOW)


def _moved(size: int, log: Log) -> bytearray:
    """The log's first batch once more, as a leader would send it next; its CRC is checked again on
    the way in."""
    content = bytearray(log.state.segments[0].file.pread(size, 0))
    content[:8] = log.state.log_end_offset.to_bytes(8)
    return content


def test_log_append_time_stamps_every_record() -> None:
    log = open_log(config=LogConfig(message_timestamp_type="LogAppendTime"))
    appended = append(log, make_batch(2, timestamp=5), now_ms=NOW + 7)
    assert appended.log_append_time_ms == NOW + 7
    content = log.reader.read(0, 1000, 2).slice.read()
    assert {record.timestamp for record in records(content)} == {NOW + 7}
    assert log.reader.offset_for_time(NOW) == (0, NOW + 7, 0)
    assert log.reader.max_timestamp() == (0, NOW + 7, 0)


def test_segments_roll_by_size_time_and_full_index() -> None:
    size = len(make_batch())
    by_size = open_log(config=LogConfig(segment_bytes=3 * size))
    assert [append(by_size).rolled for _ in range(7)] == [False] * 3 + [True] + [False] * 2 + [True]
    by_time = open_log(config=LogConfig(segment_ms=10))
    append(by_time, make_batch(timestamp=NOW))
    assert not append(by_time, make_batch(timestamp=NOW + 10)).rolled
    assert append(by_time, make_batch(timestamp=NOW + 11)).rolled
    assert not append(by_time, make_batch(timestamp=NOW)).rolled
    assert not append(by_time, make_batch(timestamp=NOW + 21)).rolled
    assert append(by_time, make_batch(timestamp=NOW + 22)).rolled
    by_clock = open_log(config=LogConfig(segment_ms=10))
    append(by_clock, make_batch(timestamp=-1))
    assert not append(by_clock, make_batch(timestamp=-1), now_ms=NOW + 10).rolled
    assert append(by_clock, make_batch(timestamp=-1), now_ms=NOW + 11).rolled
    by_index = open_log(config=LogConfig(index_interval_bytes=0, segment_index_bytes=24))
    assert sum(append(by_index, make_batch(timestamp=NOW + i)).rolled for i in range(7)) == 2


def test_offsets_that_do_not_fit_the_index_begin_a_segment() -> None:
    log = open_log()
    append(log)
    for base in (1 << 31, 5 << 31):
        log.appender.append_as_follower(make_batch(base_offset=base, leader_epoch=0), NOW)
        assert log.reader.read(base - 5, 1000, base + 1).base_offset == base
    assert [segment.base_offset for segment in log.state.segments] == [0, 1, 5 << 31]
    empty = open_log()
    empty.appender.append_as_follower(make_batch(base_offset=1 << 40, leader_epoch=0), NOW)
    assert [segment.base_offset for segment in empty.state.segments] == [1 << 40]


def test_jitter_moves_a_roll_forward_by_a_number_of_its_own() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=500)
    ages = set()
    for i in range(20):
        log = open_log(path=f"/data/t-{i}", config=config)
        append(log, make_batch(timestamp=NOW))
        age = log.segments.roll_ms
        assert not append(log, make_batch(timestamp=NOW + age)).rolled
        assert append(log, make_batch(timestamp=NOW + age + 1)).rolled
        assert 500 <= age <= 1000
        ages.add(age)
    assert len(ages) > 10


def test_reading_outside_of_the_log_is_out_of_range() -> None:
    log = open_log()
    for _ in range(4):
        append(log)
    log.segments.delete_before(2)
    for offset in (-1, 1, 5):
        with pytest.raises(KafkaError) as raised:
            log.reader.read(offset, 100, 4)
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.reader.read(3, 100, 2).length == 0, "between high watermark and end"
    assert log.reader.read(4, 100, 4).length == 0
    with pytest.raises(KafkaError):
        log.segments.delete_before(5)


def test_a_slice_ends_at_the_high_watermark_and_may_end_inside_a_batch() -> None:
    log = open_log()
    size = len(make_batch())
    for _ in range(5):
        append(log)
    assert log.reader.read(1, 10_000, 3).length == 2 * size
    assert log.reader.read(1, size + 10, 5).length == size + 10
    assert log.reader.read(1, 10, 5).length == size
    assert log.reader.read(1, 10, 5, minimum_one=False).length == 0


def test_followers_refuse_what_is_damaged_or_old_and_keep_what_came_before() -> None:
    log = open_log()
    good, bad = make_batch(leader_epoch=0), make_batch(base_offset=1, leader_epoch=0)
    bad[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.appender.append_as_follower(good + bad, NOW)
    assert log.state.log_end_offset == 1
    with pytest.raises(KafkaError) as raised:
        log.appender.append_as_follower(good, NOW)
    assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.appender.append_as_follower(b"", NOW).bytes == 0


def test_dropped_segments_can_be_read_until_they_are_removed() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    log.segments.roll(NOW)
    append(log)
    in_flight = log.state.segments[0].file
    assert log.segments.delete_before(1) == 1
    assert [n for n in disk.list(PATH) if n.endswith(".deleted")]
    assert len(in_flight.pread(1000, 0)) == len(make_batch())
    names = log.segments.deleted_files
    append(log)
    log.segments.roll(NOW)
    assert log.segments.delete_before(3) == 1, "dropped later: not yet to be removed"
    assert log.segments.remove_deleted(names) == len(names) == 3
    assert len(log.segments.deleted_files) == 3
    assert log.segments.remove_deleted() == 3
    assert not [n for n in disk.list(PATH) if n.endswith(".deleted")]


def test_a_torn_write_is_taken_back_and_the_log_goes_on() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    disk.fail_next("write", errno.ENOSPC, suffix=".log", after_bytes=33)
    with pytest.raises(StorageError) as raised:
        append(log)
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert raised.value.undone and raised.value.disk_full
    assert (log.state.log_end_offset, log.state.size, log.state.dead) == (
        1,
        len(make_batch()),
        None,
    )
    assert append(log).base_offset == 1
    assert len(headers_of(log)) == 2


def test_a_log_dies_if_a_torn_write_cannot_be_taken_back() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    disk.fail_next("write", errno.EIO, suffix=".log", after_bytes=33)
    disk.fail_next("truncate", errno.EIO)
    with pytest.raises(StorageError) as raised:
        append(log)
    assert not raised.value.undone
    for action in (
        lambda: append(log),
        log.durability.flush,
        lambda: log.segments.roll(0),
        lambda: log.segments.truncate_to(0),
    ):
        with pytest.raises(StorageError):
            action()
    log.close()


def test_a_failed_sync_is_not_tried_again() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    disk.fail_next("sync", errno.EIO, suffix=".log")
    with pytest.raises(StorageError):
        log.durability.flush()
    assert log.durability.recovery_point == 0
    with pytest.raises(StorageError):
        log.durability.flush()


def test_a_full_disk_refuses_and_the_log_goes_on_when_there_is_room() -> None:
    disk = MemoryDisk(bytes_max=3000)
    log = open_log(disk, config=LogConfig(segment_bytes=1000))
    other = disk.open("/other")
    other.pwrite(bytes(1200), 0)
    refused = 0
    for _ in range(40):
        try:
            append(log)
        except StorageError as e:
            assert e.undone
            refused += 1
    assert refused
    end = log.state.log_end_offset
    other.truncate(0)
    assert append(log).base_offset == end
    log.close()
    again = open_log(disk, clean=True, recovery_point=log.durability.recovery_point)
    assert again.state.log_end_offset == end + 1
    assert len(headers_of(again)) == end + 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex", "leader-epoch-checkpoint.tmp"])
def test_records_are_durable_though_a_full_disk_has_no_room_for_what_is_beside_them(
    suffix: str,
) -> None:
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig(index_interval_bytes=0))
    for timestamp in range(3):
        append(log, make_batch(timestamps=[timestamp]), epoch=timestamp)
    disk.fail_next("write", errno.ENOSPC, suffix=suffix, times=2)
    log.durability.flush()
    assert (log.durability.durable_offset, log.durability.recovery_point, log.state.dead) == (
        3,
        0,
        None,
    )
    with pytest.raises(StorageError) as raised:
        log.close()
    assert raised.value.disk_full and not disk.faults, "not a clean end"
    durable(disk)
    disk.crash()
    again = open_log(disk, recovery_point=log.durability.recovery_point, clean=False)
    assert [h.leader_epoch for h in headers_of(again)] == [0, 1, 2]
    found = again.reader.offset_for_time(2)
    assert found is not None and found.offset == 2
    append(again)
    again.durability.flush()
    assert again.durability.recovery_point == again.durability.durable_offset == 4, (
        "there is room again"
    )


def test_flush_moves_the_recovery_point_as_far_as_asked() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for _ in range(3):
        append(log)
    log.segments.roll(NOW)
    append(log)
    log.durability.flush(3)
    assert log.durability.recovery_point == 3
    assert disk.unsynced_bytes(f"{PATH}/{0:020d}.log") == 0
    assert disk.unsynced_bytes(f"{PATH}/{3:020d}.log") > 0
    log.durability.flush()
    assert log.durability.recovery_point == 4
    assert disk.unsynced_bytes(f"{PATH}/{3:020d}.log") == 0


def test_restarting_at_an_offset_forgets_everything() -> None:
    log = open_log()
    append(log, make_batch(producer_id=1, producer_epoch=0, sequence=0), epoch=3)
    log.segments.restart_at(500)
    assert (log.state.log_start_offset, log.state.log_end_offset, log.state.epochs.latest) == (
        500,
        500,
        -1,
    )
    assert log.state.producers.active() == []
    assert append(log, epoch=4).base_offset == 500
    assert log.state.end_offset_for_epoch(4) == (4, 501)


def test_the_config_may_change() -> None:
    log = open_log()
    log.configure(LogConfig(max_message_bytes=10))
    assert code_of(log, make_batch()) == ErrorCode.MESSAGE_TOO_LARGE
    log.configure(LogConfig(segment_bytes=200))
    for _ in range(4):
        append(log)
    assert len(log.state.segments) > 1


def test_is_hot_tells_where_no_read_is_needed() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for _ in range(3):
        append(log)
    assert log.reader.is_hot(0) and log.reader.is_hot(3)
    log.segments.roll(NOW)
    append(log)
    assert not log.reader.is_hot(0)
    assert log.reader.is_hot(3)


def test_an_offset_that_compaction_left_out_is_answered_by_what_follows() -> None:
    log = open_log()
    for base in (0, 10, 20):
        log.appender.append_as_follower(
            build_batch([(NOW, None, b"v", ())], base_offset=base, leader_epoch=0), NOW
        )
    log.segments.roll(NOW)
    log.appender.append_as_follower(make_batch(base_offset=40, leader_epoch=0), NOW)
    assert [log.reader.read(o, 1000, 41).base_offset for o in (1, 10, 11, 21, 39)] == [
        10,
        10,
        20,
        40,
        40,
    ]


@pytest.mark.parametrize("real", [False, True], ids=["memory", "real"])
def test_a_preallocated_segment_has_its_size_from_the_start_and_gives_back_the_rest(
    real: bool, tmp_path: Path
) -> None:
    disk, path = (RealDisk(), f"{tmp_path}/t-0") if real else (MemoryDisk(), PATH)
    config = LogConfig(segment_bytes=100_000, preallocate=True)
    log = open_log(disk, path=path, config=config)
    append(log)
    first, size = log.state.segments[0].file, log.state.size
    assert first.size() == 100_000 > size
    assert log.reader.read(0, 1 << 20, log.state.log_end_offset).length == size
    log.segments.roll(NOW)
    assert (first.size(), log.state.segments[1].file.size()) == (size, 100_000)
    append(log)
    crashed = open_log(disk, path=path, config=config)
    assert crashed.state.log_end_offset == 2 and crashed.state.size == 2 * size
    crashed.close()
    assert [s.file.size() for s in crashed.state.segments] == [size, size]
    again = open_log(disk, path=path, config=config, clean=True, recovery_point=2)
    assert again.state.log_end_offset == 2 and append(again).base_offset == 2


def test_the_indexes_of_the_segment_that_grows_have_their_full_length_and_give_back_the_rest(
    tmp_path: Path,
) -> None:
    path = f"{tmp_path}/t-0"
    config = LogConfig(index_interval_bytes=100, segment_index_bytes=10_000_000)

    def lengths(log: Log) -> list[tuple[int, int]]:
        return [(s.index.file.size(), s.time_index.file.size()) for s in log.state.segments]

    full = (10_000_000, 9_999_996)
    log = open_log(RealDisk(), path=path, config=config)
    assert lengths(log) == [(0, 0)], "a partition without writers needs none"
    append(log)
    assert lengths(log) == [full], "whole entries, both in one length"
    for number in range(10):
        append(log, make_batch(timestamp=NOW + number))
    log.durability.flush()
    assert lengths(log) == [full]
    log.segments.roll(NOW)
    append(log)
    (first, second) = lengths(log)
    assert first == (
        8 * log.state.segments[0].index.entries,
        12 * log.state.segments[0].time_index.entries,
    )
    assert 0 < first[0] < 100 and second == full
    crashed = open_log(RealDisk(), path=path, config=config, recovery_point=11)
    assert lengths(crashed) == [first, full]
    assert crashed.state.segments[0].max_timestamp == (NOW + 9, 10)
    crashed.close()
    assert lengths(crashed) == [first, (0, 12)]
    again = open_log(RealDisk(), path=path, config=config, clean=True, recovery_point=12)
    assert append(again).base_offset == 12
    assert lengths(again) == [first, full]
    assert sum(f.stat().st_blocks for f in Path(path).glob("*index")) * 512 < 100_000, "holes"


def test_no_room_for_a_preallocated_segment_refuses_the_append_that_needs_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=10_000, preallocate=True))
    append(log)
    disk.bytes_max = disk.used_bytes + 5_000
    with pytest.raises(StorageError) as refused:
        log.segments.roll(NOW)
    assert refused.value.undone and len(log.state.segments) == 1
    assert append(log).base_offset == 1
    disk.bytes_max = None
    log.segments.roll(NOW)
    assert append(log).base_offset == 2
