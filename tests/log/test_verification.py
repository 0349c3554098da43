"""What lets a transaction begin in a log: the word of its coordinator, as long as no marker came since it was asked (KIP-890)."""

from __future__ import annotations

import pytest

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.producers import Producers
from pk.core.record.batch import BatchHeader, read_header, records
from pk.core.record.build import build_batch, end_transaction_batch

PRODUCER = 7
DAY_MS = 86_400_000


def batch(sequence: int, epoch: int = 0) -> BatchHeader:
    data = build_batch(
        [(0, None, b"v", ())],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return read_header(data, 0)


def end(producers: Producers, epoch: int = 0) -> None:
    data = end_transaction_batch(True, 0, PRODUCER, epoch, 0)
    producers.update_marker(read_header(data, 0), next(records(data)), 9, 0)


def code(producers: Producers, header: BatchHeader, verification: object) -> int:
    try:
        producers.check_verified(header, verification, from_zero=True)  # type: ignore[arg-type]
    except KafkaError as e:
        return e.code
    return ErrorCode.NONE


def test_nothing_begins_without_verification() -> None:
    producers = Producers()
    assert code(producers, batch(0), None) == ErrorCode.INVALID_TXN_STATE
    verification = producers.begin_verification(PRODUCER, 0, 0, 0)
    assert code(producers, batch(0), verification) == ErrorCode.NONE


def test_what_is_open_goes_on_without_it() -> None:
    producers = Producers()
    producers.update(batch(0), 0, 0, 0)
    assert code(producers, batch(1), None) == ErrorCode.NONE
    assert code(producers, batch(0, epoch=1), None) == ErrorCode.INVALID_TXN_STATE


def test_a_marker_ends_it() -> None:
    producers = Producers()
    verification = producers.begin_verification(PRODUCER, 0, 0, 0)
    end(producers)
    assert code(producers, batch(0), verification) == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("gone", ["dropped", "used", "expired"])
def test_it_is_good_for_one_beginning(gone: str) -> None:
    producers = Producers()
    verification = producers.begin_verification(PRODUCER, 0, 0, 0)
    if gone == "dropped":
        producers.drop_verification(PRODUCER)
    elif gone == "used":
        producers.update(batch(0), 0, 0, 0)
        end(producers)
    else:
        producers.expire(DAY_MS, DAY_MS)
    assert code(producers, batch(0), verification) == ErrorCode.INVALID_TXN_STATE


def test_a_later_batch_waits_for_the_one_that_is_tried_again() -> None:
    producers = Producers()
    producers.begin_verification(PRODUCER, 0, 3, 0)
    verification = producers.begin_verification(PRODUCER, 0, 5, 0)
    producers.update(batch(2), 0, 0, 0)
    end(producers)
    again = producers.begin_verification(PRODUCER, 0, 5, 0)
    assert code(producers, batch(5), verification) == ErrorCode.INVALID_TXN_STATE
    producers.begin_verification(PRODUCER, 0, 3, 0)
    assert code(producers, batch(5), again) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(producers, batch(3), again) == ErrorCode.NONE


def test_a_fenced_epoch_gets_none_that_counts() -> None:
    producers = Producers()
    producers.begin_verification(PRODUCER, 2, 0, 0)
    fenced = producers.begin_verification(PRODUCER, 1, 0, 0)
    assert code(producers, batch(0, epoch=1), fenced) == ErrorCode.INVALID_TXN_STATE
