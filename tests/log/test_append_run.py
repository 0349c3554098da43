"""A run of batches, appended by one write, leaves what appending them one by one leaves."""

import errno
import os
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log.support import NOW, PATH, append, durable, headers_of, make_batch, open_log

from pk.core.errors import KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk, RealDisk
from pk.core.log.failures import StorageError
from pk.core.log.log import Log
from pk.core.record.batch import Timestamps, read_header, write_crc
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.record.validation import ValidatedBatch, validate_records

LAST_SEQUENCE = (1 << 31) - 1


def validated(batch: bytearray) -> ValidatedBatch:
    """The batch as a producer's; a log does not validate it again, but compares its CRC."""
    header = read_header(batch)
    try:
        return ValidatedBatch(batch, header, validate_records(batch, header))
    except KafkaError:  # its last byte was harmed
        times = Timestamps(header.base_timestamp, header.max_timestamp)
        return ValidatedBatch(batch, header, times)


@st.composite
def client_batches(draw: st.DrawFn) -> bytes:
    """Mostly the batches that a producer sends next, with some that must be refused or are
    special."""
    count = draw(st.integers(1, 4))
    producer = draw(st.sampled_from([-1, -1, 7, 7, 7, 8]))
    times = draw(st.lists(st.integers(NOW - 5, NOW + 5), min_size=count, max_size=count))
    batch = build_batch(
        [(time, None, b"v" * draw(st.integers(0, 60)), ()) for time in times],
        producer_id=producer,
        producer_epoch=draw(st.sampled_from([0, 0, 0, 0, 1])) if producer >= 0 else -1,
        base_sequence=draw(st.integers(0, 12)) if producer >= 0 else -1,
        codec=draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP])),
        transactional=producer == 8 and draw(st.booleans()),
    )
    harm = draw(st.sampled_from(["", "", "", "", "", "", "crc", "late", "stated"]))
    if harm == "crc":
        batch[-1] ^= 1
    elif harm == "late":
        batch[27:43] = (NOW + (1 << 40)).to_bytes(8, "big") * 2
        write_crc(batch)
    elif harm == "stated":
        batch[42] ^= 1
        write_crc(batch)
    return bytes(batch)


def continued(batches: list[bytes]) -> list[bytes]:
    """The same batches, with most sequences made to follow each other: a small sequence means "the
    next", others stay as they are."""
    following: dict[int, int] = {}
    result = []
    for data in batches:
        batch = bytearray(data)
        header = read_header(batch)
        sequence = header.base_sequence
        if header.producer_id >= 0:
            if sequence < 10:
                sequence = following.get(header.producer_id, LAST_SEQUENCE - 3)
                batch[53:57] = sequence.to_bytes(4, "big")
                if header.crc != 0:
                    whole = read_header(data)
                    good = bytearray(data)
                    write_crc(good)
                    if read_header(good).crc == whole.crc:
                        write_crc(batch)
            following[header.producer_id] = (sequence + header.last_offset_delta + 1) % (1 << 31)
        result.append(bytes(batch))
    return result


def one(log: Log, given_batch: ValidatedBatch, epoch: int) -> object:
    batch, header, timestamps = given_batch
    try:
        return log.appender.append_as_leader(batch, header, epoch, NOW, timestamps=timestamps)[:5]
    except KafkaError as e:
        return e.code


def files(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: disk.read(f"{PATH}/{name}") for name in disk.list(PATH)}


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(client_batches(), min_size=1, max_size=12).map(continued),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.sampled_from([0, 100, 4096]),
    st.sampled_from([400, 1500, 1 << 20]),
    st.sampled_from([48, 96, 10 << 20]),
    st.sampled_from([150, 1 << 20]),
    st.sampled_from([0, 3, 1 << 40]),
    st.booleans(),
)
def test_a_run_is_what_one_by_one_is(
    batches: list[bytes],
    lengths: list[int],
    interval: int,
    segment_bytes: int,
    index_bytes: int,
    message_bytes: int,
    segment_ms: int,
    append_time: bool,
) -> None:
    config = LogConfig(
        index_interval_bytes=interval,
        segment_bytes=segment_bytes,
        segment_index_bytes=index_bytes,
        max_message_bytes=message_bytes,
        segment_ms=segment_ms,
        message_timestamp_type="LogAppendTime" if append_time else "CreateTime",
    )
    disks = MemoryDisk(), MemoryDisk()
    single, runs = (open_log(disk, config=config) for disk in disks)
    expected = [one(single, validated(bytearray(batch)), 3) for batch in batches]
    found: list[object] = []
    rest = [validated(bytearray(batch)) for batch in batches]
    turn = 0
    while rest:
        run = rest[: lengths[turn % len(lengths)]]
        turn += 1
        offsets = runs.appender.append_run(run, 3, NOW)
        for offset, (_, header, _) in zip(offsets, run, strict=False):
            found.append((offset, offset + header.last_offset_delta, -1, 0, False))
        rest = rest[len(offsets) :]
        if len(offsets) < len(run):
            found.append(one(runs, rest.pop(0), 3))
    assert found == expected
    assert runs.state.log_end_offset == single.state.log_end_offset
    assert runs.state.producers.snapshot() == single.state.producers.snapshot()
    assert runs.state.epochs.entries == single.state.epochs.entries
    for ours, theirs in zip(runs.state.segments, single.state.segments, strict=True):
        assert ours.size == theirs.size
        assert ours.recent == theirs.recent
        assert ours.index_bytes == theirs.index_bytes
        assert ours.max_timestamp == theirs.max_timestamp
        assert ours.first_timestamp == theirs.first_timestamp
    runs.close()
    single.close()
    assert files(disks[1]) == files(disks[0])


def a_run(count: int = 6, size: int = 50) -> list[ValidatedBatch]:
    """Batches of one idempotent producer."""
    return [
        validated(make_batch(2, size=size, producer_id=5, producer_epoch=0, sequence=2 * i))
        for i in range(count)
    ]


def begun(disk: MemoryDisk | None = None, config: LogConfig | None = None) -> Log:
    """A log whose active segment has a batch: the first of a segment is never part of a run."""
    log = open_log(disk, config=config)
    append(log)
    return log


def test_runs_of_one_batch_end_a_segment_whose_index_is_full() -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=24)
    single, runs = begun(config=config), begun(config=config)
    for _ in range(9):
        append(single)
        if not runs.appender.append_run([validated(make_batch())], 0, NOW):
            append(runs)
    assert [s.base_offset for s in runs.state.segments] == [
        s.base_offset for s in single.state.segments
    ]
    assert len(runs.state.segments) > 2


def test_all_that_needs_nothing_special_is_one_write() -> None:
    log, run = begun(), a_run()
    writes: list[int] = []
    file = log.state.segments[-1].file

    class Counting:
        def __getattr__(self, name: str) -> object:
            if name in ("pwrite", "pwritev"):
                writes.append(1)
            return getattr(file, name)

    log.state.segments[-1].file = Counting()  # type: ignore[assignment]
    assert log.appender.append_run(run, 0, NOW) == [1, 3, 5, 7, 9, 11]
    assert len(writes) == 1
    assert [h.base_offset for h in headers_of(log)] == [0, 1, 3, 5, 7, 9, 11]


def test_the_first_batch_of_a_segment_is_appended_alone() -> None:
    log = open_log()
    assert log.appender.append_run(a_run(), 0, NOW) == []
    assert log.state.log_end_offset == 0


@pytest.mark.parametrize("after_bytes", [0, 1, 61, 170, 171, 400, 900])
def test_a_run_that_does_not_fit_is_taken_back_whole(after_bytes: int) -> None:
    disk = MemoryDisk()
    log, run = begun(disk), a_run()
    before, untouched = files(disk), [bytes(batch) for batch, _, _ in run]
    disk.fail_next("write", errno.ENOSPC, suffix=".log", after_bytes=after_bytes)
    with pytest.raises(StorageError) as caught:
        log.appender.append_run(run, 4, NOW)
    assert caught.value.undone
    assert files(disk) == before
    assert (
        log.state.log_end_offset == 1
        and log.state.producers.get(5) is None
        and log.state.epochs.latest == 0
    )
    assert [bytes(batch) for batch, _, _ in run] == untouched
    assert log.appender.append_run(run, 4, NOW) == [1, 3, 5, 7, 9, 11]
    assert log.state.epochs.latest == 4


def test_a_full_disk_refuses_the_run() -> None:
    disk = MemoryDisk(bytes_max=1000)
    log = begun(disk, LogConfig(segment_index_bytes=96))
    end, run = log.state.log_end_offset, a_run(20)
    with pytest.raises(StorageError):
        log.appender.append_run(run, 0, NOW)
    assert log.state.log_end_offset == end and log.state.dead is None
    assert log.appender.append_run(run[:2], 0, NOW) == [1, 3]


def test_a_disk_that_fails_kills_the_log() -> None:
    disk = MemoryDisk()
    log = begun(disk)
    disk.fail_next("write", errno.EIO, suffix=".log", after_bytes=100)
    with pytest.raises(StorageError) as caught:
        log.appender.append_run(a_run(), 0, NOW)
    assert not caught.value.undone and log.state.dead is not None
    with pytest.raises(StorageError):
        log.appender.append_run(a_run(), 0, NOW)


@pytest.mark.parametrize("zeroed", [False, True])
def test_a_torn_run_is_cut_at_the_end_of_a_batch(zeroed: bool) -> None:
    batches = [bytes(batch) for batch, _, _ in a_run(4, size=5)]
    ends = [sum(len(batch) for batch in batches[: i + 1]) for i in range(len(batches))]
    written, size = b"".join(batches), ends[-1]
    for kept in range(size + 1):
        disk = MemoryDisk()
        log = begun(disk)
        log.durability.flush()
        durable(disk)
        assert log.appender.append_run(a_run(4, size=5), 0, NOW) == [1, 3, 5, 7]
        disk.crash(
            lambda path, count, kept=kept: kept if path.endswith(".log") else 0, zeroed=zeroed
        )
        again = open_log(disk, recovery_point=1)
        # A zero that did not reach the disk is there all the same.
        missing = written[kept:]
        same = kept + (len(missing) - len(missing.lstrip(b"\0")) if zeroed else 0)
        whole = sum(end <= same for end in ends)
        assert again.state.log_end_offset == 1 + 2 * whole
        state = again.state.producers.get(5)
        assert (state.batches[-1].last_sequence if state else -1) == 2 * whole - 1


@pytest.mark.parametrize("written", range(0, 40, 3))
def test_a_call_that_wrote_less_is_gone_on_with(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [b"the first", memoryview(b" and the second"), bytearray(b" and the third")]
    file = RealDisk().open(str(tmp_path / "file"))
    file.pwrite(b"before ", 0)

    def short(fd: int, buffers: list[bytes], position: int) -> int:
        return os.pwrite(fd, b"".join(buffers)[:written], position)

    monkeypatch.setattr(os, "pwritev", short)
    file.pwritev(pieces, 7)
    assert (tmp_path / "file").read_bytes() == b"before the first and the second and the third"


@pytest.mark.parametrize("disk_type", [MemoryDisk, RealDisk])
def test_pieces_lie_one_after_another(disk_type: type, tmp_path: Path) -> None:
    disk = disk_type()
    disk.make(str(tmp_path))
    file = disk.open(str(tmp_path / "file"))
    file.pwrite(b"0123456789", 0)
    file.pwritev([b"ab", b"", memoryview(b"cd"), bytearray(b"e")], 8)
    assert file.pread(100, 0) == b"01234567abcde"
