"""The last stable offset and the list of aborted transactions, as far as a log knows them."""

import pytest
from log.support import append, end_transaction, make_batch, open_log

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.disk import MemoryDisk
from pk.core.log.log import Log
from pk.core.record.build import end_transaction_batch


def send(log: Log, producer_id: int, sequence: int = 0) -> int:
    batch = make_batch(
        producer_id=producer_id, producer_epoch=0, sequence=sequence, transactional=True
    )
    return append(log, batch).base_offset


def aborted(log: Log, offset: int, bytes_max: int = 1 << 20) -> list[tuple[int, int]]:
    fetched = log.read(offset, bytes_max, log.log_end_offset)
    return [(a.producer_id, a.first_offset) for a in log.aborted_transactions(offset, fetched)]


def test_the_last_stable_offset_waits_for_the_oldest_transaction() -> None:
    log = open_log()
    append(log)  # 0
    assert log.last_stable_offset(1) == 1
    send(log, 1)  # 1
    send(log, 2)  # 2
    append(log)  # 3
    assert log.last_stable_offset(4) == 1
    assert log.last_stable_offset(1) == 1
    assert log.last_stable_offset(0) == 0
    end_transaction(log, 1, commit=True)  # 4
    assert log.last_stable_offset(4) == 1, "the marker is not replicated yet"
    assert log.last_stable_offset(5) == 2
    end_transaction(log, 2, commit=False)  # 5
    assert log.last_stable_offset(6) == 6


def test_aborted_transactions_are_told_where_they_overlap() -> None:
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
    assert aborted(log, log.log_end_offset) == []


def test_a_transaction_over_several_segments() -> None:
    log = open_log()
    send(log, 1)
    log.roll(0)
    for _ in range(3):
        append(log)
    log.roll(0)
    end_transaction(log, 1, commit=False)
    assert [segment.txn_index.empty for segment in log.segments] == [True, True, False]
    for offset in range(5):
        assert aborted(log, offset) == [(1, 0)]


def test_what_lies_far_behind_a_slice_is_not_told() -> None:
    log = open_log(config=LogConfig(index_interval_bytes=0))
    for i in range(20):
        send(log, i)
        end_transaction(log, i, commit=False)
    told = aborted(log, 0, bytes_max=1)
    assert told[0] == (0, 0)
    assert len(told) < 5


@pytest.mark.parametrize("how", ["clean", "crash", "truncate"])
def test_transactions_are_still_known_after(how: str) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1)  # 0
    end_transaction(log, 1, commit=False)  # 1
    send(log, 2)  # 2
    log.roll(0)
    send(log, 3)  # 3
    end_transaction(log, 3, commit=False)  # 4
    if how == "truncate":
        append(log)
        end_transaction(log, 2, commit=True)
        log.truncate_to(5)
    else:
        if how == "clean":
            log.close()
        log = open_log(
            disk, clean=how == "clean", recovery_point=log.recovery_point if how == "clean" else 0
        )
    assert aborted(log, 0) == [(1, 0)]
    assert aborted(log, 3) == [(3, 3)]
    assert log.last_stable_offset(5) == 2
    assert log.segments[0].txn_index.all() == [(1, 0, 1, 2)]
    assert log.segments[1].txn_index.all() == [(3, 3, 4, 2)]


def test_clients_may_not_write_markers() -> None:
    log = open_log()
    with pytest.raises(KafkaError) as raised:
        append(log, end_transaction_batch(True, 0, 1, 0, 0))
    assert raised.value.code == ErrorCode.INVALID_RECORD
