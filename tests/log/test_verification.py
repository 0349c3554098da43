"""A transaction may begin in a log if its coordinator has confirmed it, and no marker arrived after
the coordinator was asked (KIP-890)."""

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
    verification = producers.begin_verification(PRODUCER, 0, 0, 0, second_protocol=False)
    assert code(producers, batch(0), verification) == ErrorCode.NONE


def test_what_is_open_goes_on_without_it() -> None:
    producers = Producers()
    producers.update(batch(0), 0, 0, 0)
    assert code(producers, batch(1), None) == ErrorCode.NONE
    assert code(producers, batch(0, epoch=1), None) == ErrorCode.INVALID_TXN_STATE


def test_a_marker_ends_it() -> None:
    producers = Producers()
    verification = producers.begin_verification(PRODUCER, 0, 0, 0, second_protocol=False)
    end(producers)
    assert code(producers, batch(0), verification) == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("second", [False, True])
def test_a_marker_with_the_same_epoch_is_of_the_transaction_before_in_the_second_protocol(
    second: bool,
) -> None:
    """There EndTxn answers before the markers are written, and the next transaction has the epoch
    of the last one's marker."""
    producers = Producers()
    verification = producers.begin_verification(PRODUCER, 1, 0, 0, second_protocol=second)
    end(producers, epoch=1)
    found = code(producers, batch(0, epoch=1), verification)
    assert found == (ErrorCode.NONE if second else ErrorCode.INVALID_TXN_STATE)
    end(producers, epoch=2)
    assert code(producers, batch(0, epoch=1), verification) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not producers.is_verified(PRODUCER, 1, verification)


def test_a_marker_of_the_next_epoch_makes_the_batch_one_of_an_old_epoch() -> None:
    """A transaction that timed out between question and append: the producer can abort and go
    on."""
    producers = Producers()
    verification = producers.begin_verification(PRODUCER, 0, 0, 0, second_protocol=False)
    end(producers, epoch=1)
    assert code(producers, batch(0), verification) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(producers, batch(0), None) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(producers, batch(0, epoch=1), verification) == ErrorCode.INVALID_TXN_STATE


def test_a_repeated_batch_passes_after_the_marker() -> None:
    producers = Producers()
    verification = producers.begin_verification(PRODUCER, 0, 0, 0, second_protocol=False)
    producers.update(batch(0), 0, 0, 0)
    end(producers)
    assert code(producers, batch(0), verification) == ErrorCode.NONE
    assert producers.check(batch(0)) is not None
    assert code(producers, batch(1), verification) == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("gone", ["dropped", "used", "expired"])
def test_it_is_good_for_one_beginning(gone: str) -> None:
    producers = Producers()
    verification = producers.begin_verification(PRODUCER, 0, 0, 0, second_protocol=False)
    if gone == "dropped":
        producers.drop_verification(PRODUCER)
    elif gone == "used":
        producers.update(batch(0), 0, 0, 0)
        end(producers)
    else:
        producers.expire(DAY_MS, DAY_MS)
    assert code(producers, batch(1), verification) == ErrorCode.INVALID_TXN_STATE


def test_a_later_batch_waits_for_the_one_that_is_tried_again() -> None:
    producers = Producers()
    producers.begin_verification(PRODUCER, 0, 3, 0, second_protocol=False)
    verification = producers.begin_verification(PRODUCER, 0, 5, 0, second_protocol=False)
    producers.update(batch(2), 0, 0, 0)
    end(producers)
    again = producers.begin_verification(PRODUCER, 0, 5, 0, second_protocol=False)
    assert code(producers, batch(5), verification) == ErrorCode.INVALID_TXN_STATE
    producers.begin_verification(PRODUCER, 0, 3, 0, second_protocol=False)
    assert code(producers, batch(5), again) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(producers, batch(3), again) == ErrorCode.NONE


def test_a_fenced_epoch_gets_none_that_counts() -> None:
    producers = Producers()
    producers.begin_verification(PRODUCER, 2, 0, 0, second_protocol=False)
    fenced = producers.begin_verification(PRODUCER, 1, 0, 0, second_protocol=False)
    assert code(producers, batch(0, epoch=1), fenced) == ErrorCode.INVALID_TXN_STATE
