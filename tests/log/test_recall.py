"""A batch that is sent again after its broker was stopped well and came back: any of the last five
is known, although a snapshot keeps one. The simulator found it: a leader stopped with two batches
unanswered refused the first of them."""

from __future__ import annotations

import pytest
from log.support import append, end_transaction, make_batch, open_log

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.log import Log
from pk.core.log.memory_disk import MemoryDisk

PRODUCER = 7


def sent(sequence: int, producer_id: int = PRODUCER, epoch: int = 0) -> bytearray:
    return make_batch(producer_id=producer_id, producer_epoch=epoch, sequence=sequence)


def reopened(disk: MemoryDisk, log: Log, config: LogConfig | None = None) -> Log:
    log.close()
    return open_log(disk, clean=True, recovery_point=log.durability.recovery_point, config=config)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 250])
def test_each_of_the_last_five_batches_is_known_after_a_clean_start(segment_bytes: int) -> None:
    config = LogConfig(segment_bytes=segment_bytes)
    disk = MemoryDisk()
    log = open_log(disk, config=config)
    offsets = {}
    for sequence in range(8):
        offsets[sequence] = append(log, sent(sequence)).base_offset
        append(log, sent(sequence, producer_id=8))
    log = reopened(disk, log, config)
    known = [7] + ([6, 5, 4, 3] if segment_bytes > 1000 else [6])
    for sequence in reversed(known):
        again = append(log, sent(sequence))
        assert again.duplicate and again.base_offset == offsets[sequence]
    assert append(log, sent(8)).base_offset == 16


def test_what_is_older_or_from_the_future_is_refused_still() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(8):
        append(log, sent(sequence))
    log = reopened(disk, log)
    for sequence in (2, 0, 9):
        with pytest.raises(KafkaError) as raised:
            append(log, sent(sequence))
        assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, sent(4)).duplicate


def test_batches_of_an_older_epoch_are_not_taken_for_those_of_this_one() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(4):
        append(log, sent(sequence))
    append(log, sent(0, epoch=1))
    append(log, sent(1, epoch=1))
    log = reopened(disk, log)
    again = append(log, sent(0, epoch=1))
    assert again.duplicate and again.base_offset == 4
    with pytest.raises(KafkaError):
        append(log, sent(3, epoch=1))


def test_a_marker_that_begins_a_new_epoch_leaves_nothing_to_recall() -> None:
    """Since KIP-890 every marker begins a new epoch. An error in a batch after it is the producer's
    fault, not the log's."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, sent(0))
    log = reopened(disk, log)
    end_transaction(log, PRODUCER, commit=True, producer_epoch=1)
    with pytest.raises(KafkaError) as raised:
        append(log, sent(3, epoch=1))
    assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not append(log, sent(0, epoch=1)).duplicate
