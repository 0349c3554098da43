"""The answers of the transaction machine in each state, and what survives a restart."""

from __future__ import annotations

from typing import Any

import pytest
from txn.coordinator import START_MS, TIMEOUT_MS, A, B, Coordinator

from pk.core.errors import ErrorCode
from pk.core.txn.machine import EXPIRED_RECORDS_MAX, Marked, ProducerKey, TransactionSettings
from pk.core.txn.transaction import EPOCH_MAX, State
from pk.core.values import TopicPartition

E = ErrorCode
HOUR_MS = 3_600_000


@pytest.fixture
def c() -> Coordinator:
    return Coordinator()


def begun(c: Coordinator, *partitions: TopicPartition, client_version: int = 2) -> ProducerKey:
    """A producer with a transaction open."""
    producer = c.init()
    assert isinstance(producer, ProducerKey)
    assert c.add(producer, *(partitions or (A,)), client_version=client_version) == E.NONE
    return producer


# --- InitProducerId ---


def test_a_new_id_gets_a_fresh_producer_id_with_epoch_0(c: Coordinator) -> None:
    assert c.init() == ProducerKey(1000, 0)
    assert c.init("other") == ProducerKey(1001, 0)
    assert c.state() is State.EMPTY


def test_each_instance_fences_the_one_before(c: Coordinator) -> None:
    first = c.init()
    assert isinstance(first, ProducerKey)
    assert c.init() == ProducerKey(1000, 1)
    assert c.add(first, A) == E.PRODUCER_FENCED
    assert c.end(first) == E.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(c: Coordinator, timeout_ms: int) -> None:
    assert c.init(timeout_ms=timeout_ms) == E.INVALID_TRANSACTION_TIMEOUT


def test_two_phase_commit_is_refused(c: Coordinator) -> None:
    assert c.init(enable2_pc=True) == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert c.init(keep_prepared_txn=True) == E.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_is_aborted_first(version: int) -> None:
    c = Coordinator(transaction_version=version)
    begun(c, A, B, client_version=version)
    assert c.init() == E.CONCURRENT_TRANSACTIONS
    assert c.state() is State.PREPARE_ABORT
    assert c.init() == E.CONCURRENT_TRANSACTIONS
    (marker,) = c.markers
    assert not marker.committed and marker.partitions == {A, B}
    assert marker.producer == ProducerKey(1000, 1)
    c.mark()
    assert c.state() is State.COMPLETE_ABORT
    assert c.init() == ProducerKey(1000, 2)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("timed_out", [False, True])
def test_a_producer_whose_transaction_was_aborted_goes_on_under_its_own_id(
    version: int, timed_out: bool
) -> None:
    c = Coordinator(transaction_version=version)
    own = begun(c, A, client_version=version)
    if timed_out:
        c.after(TIMEOUT_MS)
        c.after(10_000)
    else:
        assert c.init(producer=own) == E.CONCURRENT_TRANSACTIONS
    assert c.init(producer=own) == E.CONCURRENT_TRANSACTIONS
    c.mark()
    assert c.init(producer=own) == ProducerKey(1000, 1)
    assert c.init(producer=own) == ProducerKey(1000, 1)  # its answer was lost
    assert c.init() == ProducerKey(1000, 2)
    assert c.init(producer=own) == E.PRODUCER_FENCED


def test_a_producer_goes_on_under_another_id_after_its_last_epoch_was_aborted(
    c: Coordinator,
) -> None:
    c.init()
    own = ProducerKey(1000, EPOCH_MAX - 1)
    c.set(epoch=own.epoch)
    assert c.add(own, A) == E.NONE
    assert c.init(producer=own) == E.CONCURRENT_TRANSACTIONS
    c.mark()
    assert c.init(producer=own) == ProducerKey(1001, 0)
    assert c.init(producer=own) == ProducerKey(1001, 0)  # its answer was lost


def test_a_producer_goes_on_after_an_error_under_its_own_id(c: Coordinator) -> None:
    first = c.init()
    assert isinstance(first, ProducerKey)
    second = c.init(producer=first)
    assert isinstance(second, ProducerKey)
    assert second == ProducerKey(1000, 1)
    assert c.init(producer=first) == second  # its answer was lost
    assert c.init() == ProducerKey(1000, 2)  # somebody else
    assert c.init(producer=first) == E.PRODUCER_FENCED
    assert c.init(producer=second) == E.PRODUCER_FENCED
    assert c.init(producer=ProducerKey(77, 0)) == E.PRODUCER_FENCED


def test_an_unknown_id_may_say_which_producer_it_was(c: Coordinator) -> None:
    assert c.init(producer=ProducerKey(5, 7)) == ProducerKey(1000, 0)


def test_an_exhausted_epoch_takes_another_producer_id(c: Coordinator) -> None:
    c.init()
    c.set(epoch=EPOCH_MAX - 2)
    last = c.init()
    assert last == ProducerKey(1000, EPOCH_MAX - 1)
    assert c.init() == ProducerKey(1001, 0)
    assert c.txn().previous_producer_id == 1000
    assert c.add(ProducerKey(1000, EPOCH_MAX - 1), A) == E.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_that_was_rotated_and_did_not_hear_of_it_may_ask_again(c: Coordinator) -> None:
    c.init()
    last = ProducerKey(1000, EPOCH_MAX - 1)
    c.set(epoch=last.epoch)
    assert c.init(producer=last) == ProducerKey(1001, 0)
    assert c.init(producer=last) == ProducerKey(1001, 0)


def test_fencing_the_last_epoch_does_not_overflow(c: Coordinator) -> None:
    c.init()
    c.set(epoch=EPOCH_MAX - 1)
    assert c.add(ProducerKey(1000, EPOCH_MAX - 1), A) == E.NONE
    assert c.init() == E.CONCURRENT_TRANSACTIONS
    assert c.markers[0].producer == ProducerKey(1000, EPOCH_MAX)
    c.mark()
    assert c.init() == ProducerKey(1001, 0)


@pytest.mark.parametrize("open_", [False, True])
def test_who_ends_with_the_last_epoch_goes_on_under_another_producer_id(
    c: Coordinator, open_: bool
) -> None:
    """A fenced producer that repeats its end gets the epoch that fences it."""
    c.init()
    fenced = ProducerKey(1000, EPOCH_MAX - 1)
    c.set(epoch=fenced.epoch)
    assert c.add(fenced, A) == E.NONE
    assert c.init() == E.CONCURRENT_TRANSACTIONS
    c.mark()
    last = ProducerKey(1000, EPOCH_MAX)
    assert c.end(fenced, commit=False, version=5) == last
    if open_:
        assert c.add(last, A) == E.NONE
    assert c.end(last, commit=open_, version=5) == ProducerKey(1001, 0)
    assert c.txn().epoch == EPOCH_MAX


# --- partitions ---


def test_partitions_are_added_to_one_transaction(c: Coordinator) -> None:
    producer = begun(c)
    assert c.txn().started_ms == START_MS
    c.now_ms += 5
    assert c.add(producer, B) == E.NONE
    assert c.txn().partitions == {A, B}
    assert (c.txn().started_ms, c.txn().updated_ms) == (START_MS, START_MS + 5)
    written = len(c.log)
    assert c.add(producer, A, B) == E.NONE
    assert len(c.log) == written  # nothing new


def test_who_may_not_add_partitions(c: Coordinator) -> None:
    assert c.add(ProducerKey(1, 0), A) == E.INVALID_PRODUCER_ID_MAPPING
    producer = begun(c)
    assert c.add(ProducerKey(77, 0), B) == E.INVALID_PRODUCER_ID_MAPPING
    assert c.add(ProducerKey(1000, 1), B) == E.PRODUCER_FENCED
    c.end(producer, version=4)
    assert c.add(producer, B) == E.CONCURRENT_TRANSACTIONS


def test_partitions_are_verified(c: Coordinator) -> None:
    producer = begun(c)
    assert c.verify(producer, A, B) == [E.NONE, E.TRANSACTION_ABORTABLE]
    assert c.verify(ProducerKey(77, 0), A) == [E.INVALID_PRODUCER_ID_MAPPING]
    assert c.verify(ProducerKey(1000, 1), A) == [E.PRODUCER_FENCED]
    c.end(producer, version=4)
    assert c.verify(producer, A) == [E.CONCURRENT_TRANSACTIONS]
    c.mark()
    assert c.verify(producer, A) == [E.TRANSACTION_ABORTABLE]


# --- EndTxn ---


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_when_every_partition_has_its_marker(
    c: Coordinator, commit: bool
) -> None:
    producer = begun(c, A, B)
    assert c.end(producer, commit=commit) == ProducerKey(1000, 1)
    (marker,) = c.markers
    assert marker.committed is commit
    assert (marker.producer, marker.partitions) == (ProducerKey(1000, 1), {A, B})
    assert marker.transaction_version == 2
    c.mark(A)
    assert c.state().is_prepared
    c.mark(B)
    assert c.state() is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert c.txn().partitions == frozenset()


def test_the_first_protocol_keeps_its_epoch(c: Coordinator) -> None:
    producer = begun(c, client_version=0)
    c.end(producer, version=4)
    assert c.markers[0].producer == producer
    assert c.markers[0].transaction_version == 0
    c.mark()
    assert c.add(producer, B, client_version=0) == E.NONE
    assert c.end(producer, version=4) == ProducerKey(-1, -1)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (State.EMPTY, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
        (State.PREPARE_COMMIT, E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE),
        (State.PREPARE_ABORT, E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
        (State.COMPLETE_COMMIT, E.NONE, E.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, E.INVALID_TXN_STATE, E.NONE),
    ],
)
def test_ending_again_in_the_first_protocol(
    c: Coordinator, state: State, commit: ErrorCode, abort: ErrorCode
) -> None:
    c.set(state=state)
    for wanted, answer in ((True, commit), (False, abort)):
        found = c.end(ProducerKey(1000, 0), commit=wanted, version=4)
        assert (E.NONE if isinstance(found, ProducerKey) else found) == answer
    assert c.state() is state


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (State.PREPARE_COMMIT, E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE),
        (State.PREPARE_ABORT, E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
        (State.COMPLETE_COMMIT, ProducerKey(1000, 6), E.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, E.INVALID_TXN_STATE, ProducerKey(1000, 6)),
        (State.EMPTY, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (State.ONGOING, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    ],
)
def test_ending_again_in_the_second_protocol(
    c: Coordinator, state: State, commit: object, abort: object
) -> None:
    """The epoch has risen, and the client that asks again has the one before."""
    c.set(state=state, epoch=6)
    assert c.end(ProducerKey(1000, 5), commit=True) == commit
    assert c.end(ProducerKey(1000, 5), commit=False) == abort
    assert c.state() is state


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_an_abort_of_nothing_raises_the_epoch(c: Coordinator, state: State) -> None:
    c.set(state=state, epoch=6)
    assert c.end(ProducerKey(1000, 6), commit=True) == E.INVALID_TXN_STATE
    assert c.end(ProducerKey(1000, 6), commit=False) == ProducerKey(1000, 7)
    assert c.txn().started_ms == START_MS
    assert c.markers[0].partitions == frozenset()
    c.mark()
    assert c.state() is State.COMPLETE_ABORT


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_the_next_epoch_cannot_end_what_is_being_ended(c: Coordinator, state: State) -> None:
    c.set(state=state, epoch=6)
    assert c.end(ProducerKey(1000, 6), commit=True) == E.PRODUCER_FENCED


def test_the_last_epoch_goes_over_to_another_producer_id(c: Coordinator) -> None:
    last = ProducerKey(1000, EPOCH_MAX - 1)
    c.set(epoch=last.epoch)
    c.next_id = 1001
    assert c.add(last, A) == E.NONE
    assert c.end(last) == ProducerKey(1001, 0)
    assert c.markers[0].producer == ProducerKey(1000, EPOCH_MAX)
    c.fail_over()
    assert c.end(last) == E.CONCURRENT_TRANSACTIONS
    c.mark()
    assert (c.txn().producer_id, c.txn().epoch, c.txn().previous_producer_id) == (1001, 0, 1000)
    assert c.end(last) == ProducerKey(1001, 0)
    assert c.end(last, commit=False) == E.INVALID_TXN_STATE
    assert c.add(ProducerKey(1001, 0), A) == E.NONE


def test_who_may_not_end(c: Coordinator) -> None:
    assert c.end(ProducerKey(1, 0)) == E.INVALID_PRODUCER_ID_MAPPING
    begun(c)
    for version in (4, 5):
        assert c.end(ProducerKey(77, 0), version=version) == E.INVALID_PRODUCER_ID_MAPPING
        assert c.end(ProducerKey(1000, 9), version=version) == E.PRODUCER_FENCED


# --- a coordinator dies ---


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_coordinator_sends_every_marker_of_what_was_prepared(
    c: Coordinator, commit: bool
) -> None:
    c.end(begun(c, A, B), commit=commit)
    c.mark(A)
    c.fail_over()
    (marker,) = c.markers
    assert (marker.partitions, marker.committed) == ({A, B}, commit)
    c.mark()
    assert c.state() is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    c.fail_over()
    assert c.markers == []
    assert c.state() is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


def test_an_open_transaction_stays_open_over_a_failover(c: Coordinator) -> None:
    producer = begun(c, A)
    c.fail_over()
    assert c.markers == []
    assert c.add(producer, B) == E.NONE
    assert c.txn().partitions == {A, B}


def test_markers_of_an_earlier_transaction_complete_nothing(c: Coordinator) -> None:
    producer = begun(c, A)
    c.end(producer)
    (old,) = c.markers
    c.mark()
    following = ProducerKey(1000, 1)
    c.add(following, A)
    c.end(following)
    c.take(c.machine.marked([Marked("t", old.producer, old.partitions)], c.now_ms))
    assert c.state() is State.PREPARE_COMMIT


# --- time ---


@pytest.mark.parametrize("version", [0, 2])
def test_what_is_open_for_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    c = Coordinator(transaction_version=version)
    producer = begun(c, A, client_version=version)
    c.after(TIMEOUT_MS)
    assert c.state() is State.ONGOING
    c.after(10_000)
    assert c.state() is State.PREPARE_ABORT
    assert c.end(producer, version=4) == E.PRODUCER_FENCED
    c.mark()
    assert c.state() is State.COMPLETE_ABORT


def test_time_goes_on_over_a_failover(c: Coordinator) -> None:
    begun(c)
    c.after(TIMEOUT_MS // 2)
    c.fail_over()
    c.after(TIMEOUT_MS // 2 + 10_000)
    assert c.state() is State.PREPARE_ABORT


@pytest.mark.thorough
def test_ten_thousand_that_time_out_are_aborted_in_rounds() -> None:
    c = Coordinator()
    for n in range(10_000):
        one = c.init(f"t{n}")
        assert isinstance(one, ProducerKey)
        c.take(c.machine.add_partitions(f"t{n}", one, [A], 2, c.now_ms))
    c.after(TIMEOUT_MS + 11_000)
    assert {txn.state for txn in c.machine.transactions.values()} == {State.PREPARE_ABORT}
    assert len(c.markers) == 10_000


def test_unused_ids_are_forgotten() -> None:
    c = Coordinator(TransactionSettings(id_expiration_ms=10 * HOUR_MS))
    begun(c)
    for n in range(2 * EXPIRED_RECORDS_MAX):
        c.init(f"idle{n}")
    c.end(ProducerKey(1000, 0))
    c.mark()
    c.after(9 * HOUR_MS)
    assert len(c.machine.transactions) == 2 * EXPIRED_RECORDS_MAX + 1
    assert c.init("idle7") != ProducerKey(0, 0)  # is used again
    c.after(2 * HOUR_MS)
    assert list(c.machine.transactions) == ["idle7"]
    assert c.add(ProducerKey(1000, 1), A) == E.INVALID_PRODUCER_ID_MAPPING
    c.fail_over()
    assert list(c.machine.transactions) == ["idle7"]


def test_what_is_not_over_is_not_forgotten() -> None:
    c = Coordinator(TransactionSettings(id_expiration_ms=HOUR_MS))
    c.end(begun(c))
    c.after(5 * HOUR_MS)
    assert c.state() is State.PREPARE_COMMIT


# --- what operators ask ---


def test_transactions_are_described(c: Coordinator) -> None:
    begun(c, B, A, TopicPartition("b", 1))
    found, missing, empty = c.take(c.machine.describe(["t", "u", ""], c.now_ms))
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == (
        "Ongoing",
        1000,
        0,
    )
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (TIMEOUT_MS, START_MS)
    assert [(t.topic, t.partitions) for t in found.topics] == [("a", [0]), ("b", [1, 3])]
    assert missing.error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == E.INVALID_REQUEST


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (((), (), -1, None), ["t", "u"]),
        ((("Ongoing",), (), -1, None), ["t"]),
        ((("Nonsense",), (), -1, None), []),
        ((("Nonsense", "Empty"), (), -1, None), ["u"]),
        (((), (1001,), -1, None), ["u"]),
        ((("Ongoing",), (1001,), -1, None), []),
        ((("Ongoing",), (), 99, None), ["t"]),
        ((("Ongoing",), (), 100, None), []),
        (((), (), -1, lambda name: name == "u"), ["u"]),
    ],
)
def test_transactions_are_listed_by_filters(c: Coordinator, filters: Any, found: list[str]) -> None:
    begun(c)
    c.init("u")
    c.now_ms += 100
    listed = c.take(c.machine.list_transactions(*filters, now_ms=c.now_ms))
    assert [one.transactional_id for one in listed] == found
