"""The batches that a log accepts from a producer, as tables, and snapshots in Kafka's format."""

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from log.support import NOW, append, end_transaction, make_batch, open_log

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.log import Appended, Log
from pk.core.log.memory_disk import MemoryDisk
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.record.batch import read_header

TOP = (1 << 31) - 1
STALE, OUT_OF_ORDER = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def send(
    log: Log, sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False
) -> Appended:
    batch = make_batch(
        count, producer_id=7, producer_epoch=epoch, sequence=sequence, transactional=transactional
    )
    return append(log, batch)


Sent = tuple[int, int, int]
"""(producer epoch, sequence, count)"""


@for_each(
    ("before", "batch", "answer"),
    [
        ([], (0, 0, 1), "ok"),
        ([], (3, 4711, 1), "ok"),  # unknown: may begin anywhere
        ([(0, 0, 3)], (0, 3, 1), "ok"),
        ([(0, 0, 3)], (0, 4, 1), OUT_OF_ORDER),
        ([(0, 0, 3)], (0, 2, 1), OUT_OF_ORDER),  # inside an old batch is not that batch
        ([(0, 0, 3)], (0, 0, 3), 0),
        ([(0, 0, 3)], (0, 0, 2), OUT_OF_ORDER),
        ([(0, i, 1) for i in range(6)], (0, 1, 1), 1),
        ([(0, i, 1) for i in range(6)], (0, 5, 1), 5),
        ([(0, i, 1) for i in range(6)], (0, 0, 1), OUT_OF_ORDER),  # the sixth last is forgotten
        ([(0, 0, 1)], (1, 0, 1), "ok"),
        ([(0, 0, 1)], (1, 1, 1), OUT_OF_ORDER),
        ([(1, 0, 1)], (0, 0, 1), STALE),
        ([(1, 0, 1)], (0, 1, 1), STALE),
        ([(0, 0, 1), (1, 0, 1)], (1, 0, 1), 1),  # a duplicate within the new epoch
        ([(0, TOP, 1)], (0, 0, 1), "ok"),
        ([(0, TOP - 1, 4)], (0, 2, 1), "ok"),  # wrapped inside the batch
        ([(0, TOP - 1, 4)], (0, TOP - 1, 4), 0),
        ([(0, TOP - 1, 4)], (0, 0, 1), OUT_OF_ORDER),
    ],
)
def test_sequences(before: list[Sent], batch: Sent, answer: str | int) -> None:
    log = open_log()
    for epoch, sequence, count in before:
        assert not send(log, sequence, count, epoch=epoch).duplicate
    end = log.state.log_end_offset
    epoch, sequence, count = batch
    if answer == "ok":
        sent = send(log, sequence, count, epoch=epoch)
        assert (sent.duplicate, sent.base_offset, log.state.log_end_offset) == (
            False,
            end,
            end + count,
        )
    elif isinstance(answer, ErrorCode):
        with pytest.raises(KafkaError) as raised:
            send(log, sequence, count, epoch=epoch)
        assert raised.value.code == answer
        assert log.state.log_end_offset == end
    else:
        sent = send(log, sequence, count, epoch=epoch)
        assert (sent.duplicate, sent.base_offset, log.state.log_end_offset) == (True, answer, end)
        assert sent.last_offset == sent.base_offset + count - 1


def test_a_batch_outside_of_an_open_transaction_is_refused() -> None:
    log = open_log()
    send(log, 0, transactional=True)
    with pytest.raises(KafkaError) as raised:
        send(log, 1)
    assert raised.value.code == ErrorCode.INVALID_TXN_STATE
    end_transaction(log, 7, commit=True)
    send(log, 1)


def test_after_a_marker_of_a_newer_epoch_sequences_begin_at_0() -> None:
    log = open_log()
    send(log, 0, transactional=True)
    end_transaction(log, 7, commit=False, producer_epoch=1)
    with pytest.raises(KafkaError) as raised:
        send(log, 1, epoch=1)
    assert raised.value.code == OUT_OF_ORDER
    with pytest.raises(KafkaError) as raised:
        send(log, 1, epoch=0)
    assert raised.value.code == STALE
    send(log, 0, epoch=1)


def test_markers_of_an_old_coordinator_or_epoch_are_fenced() -> None:
    log = open_log()
    send(log, 0, epoch=1, transactional=True)
    with pytest.raises(KafkaError) as raised:
        end_transaction(log, 7, commit=True, producer_epoch=0)
    assert raised.value.code == STALE
    end_transaction(log, 7, commit=True, producer_epoch=1, coordinator_epoch=5)
    with pytest.raises(KafkaError) as raised:
        end_transaction(log, 7, commit=True, producer_epoch=1, coordinator_epoch=4)
    assert raised.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_an_idle_producer_is_forgotten_but_not_one_in_a_transaction() -> None:
    log = open_log()
    send(log, 5)
    append(
        log, make_batch(producer_id=8, producer_epoch=0, sequence=0, transactional=True), now_ms=NOW
    )
    day = log.state.config.producer_id_expiration_ms
    assert log.state.expire_producers(NOW + day - 1) == 0
    assert log.state.expire_producers(NOW + day) == 1
    assert [p.producer_id for p in log.state.producers.active()] == [8]
    send(log, 4711)


def test_producers_without_readers_are_not_read_to_be_forgotten() -> None:
    """Their snapshot is damaged, and so is what would tell the same: that is for the reader of
    it."""
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 0)
    log.close()
    disk.open(f"{log.state.directory}/{1:020d}.snapshot").pwrite(b"\7", 20)
    disk.open(log.state.segments[0].file.path).pwrite(b"\7", 16)
    log = open_log(disk, clean=True, recovery_point=1)
    assert log.state.expire_producers(NOW) == 0


def test_what_describe_producers_tells() -> None:
    log = open_log()
    append(log, make_batch(2, timestamp=NOW - 5, producer_id=7, producer_epoch=3, sequence=0))
    append(log, make_batch(producer_id=8, producer_epoch=0, sequence=9, transactional=True))
    end_transaction(log, 9, commit=True, producer_epoch=2, coordinator_epoch=6)
    assert [tuple(p) for p in log.state.producers.active()] == [
        (7, 3, 1, NOW - 5, -1, -1),
        (8, 0, 9, NOW, -1, 2),
        (9, 2, -1, NOW, 6, -1),
    ]


def test_a_snapshot_has_kafkas_bytes() -> None:
    producers = Producers()
    batch = make_batch(3, timestamp=5, producer_id=7, producer_epoch=2, sequence=10)
    producers.update(read_header(batch), 100, 5, NOW)
    content = producers.snapshot()
    assert content[:2].hex() == "0001"
    assert (
        content[6:].hex()
        == (
            "00000001"  # one producer
            "0000000000000007" + "0002"  # id, epoch
            "0000000c"  # last sequence
            "0000000000000066"  # last offset
            "00000002"  # offset delta
            "0000000000000005"  # timestamp
            "ffffffff"  # coordinator epoch
            "ffffffffffffffff"  # no transaction
        )
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.booleans(), st.sampled_from(["batch", "commit", "abort", "bump"])
        ),
        max_size=30,
    )
)
def test_a_snapshot_restores_what_judges(steps: list[tuple[int, bool, str]]) -> None:
    log = open_log()
    sequences: dict[int, int] = {}
    epochs: dict[int, int] = {}
    for producer_id, transactional, what in steps:
        epoch = epochs.setdefault(producer_id, 0)
        state = log.state.producers.get(producer_id)
        in_transaction = state is not None and state.txn_first_offset >= 0
        if what == "batch":
            sequence = sequences.get(producer_id, 0)
            append(
                log,
                make_batch(
                    2,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    sequence=sequence,
                    transactional=transactional or in_transaction,
                ),
            )
            sequences[producer_id] = sequence + 2
        elif what == "bump":
            if not in_transaction:
                epochs[producer_id] += 1
                sequences[producer_id] = 0
        else:
            end_transaction(log, producer_id, commit=what == "commit", producer_epoch=epoch)
    restored = Producers.from_snapshot(
        log.state.producers.snapshot(), log.state.log_end_offset, NOW
    )
    assert restored.active() == log.state.producers.active()
    end = log.state.log_end_offset
    assert restored.first_unstable_offset(end) == log.state.producers.first_unstable_offset(end)
    assert restored.snapshot() == log.state.producers.snapshot()


@pytest.mark.parametrize("cut", [0, 5, 9, 10, 50])
def test_a_snapshot_that_is_cut_off_is_refused(cut: int) -> None:
    producers = Producers()
    producers.update(
        read_header(make_batch(producer_id=7, producer_epoch=0, sequence=0)), 0, 0, NOW
    )
    with pytest.raises(CorruptSnapshot):
        Producers.from_snapshot(producers.snapshot()[:cut], 1, NOW)


def test_every_flipped_bit_of_a_snapshot_is_seen() -> None:
    producers = Producers()
    producers.update(
        read_header(make_batch(producer_id=7, producer_epoch=0, sequence=0)), 0, 0, NOW
    )
    content = producers.snapshot()
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshot):
            Producers.from_snapshot(bytes(flipped), 1, NOW)
