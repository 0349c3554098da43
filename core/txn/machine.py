"""The transaction coordinator's machine: every transactional id of one partition of
`__transaction_state`.

It uses wire messages and knows no broker: the runtime (the coordinators of core/broker) appends its
records and carries out its effects. The durable state is a `Transaction` for each transactional id,
and only `replay` changes it. The soft state is the set of partitions that still lack a marker: a
new coordinator sends every marker of a prepared transaction again, and a partition that already has
the marker recognizes the repetition.

Some decisions need an unused producer id, which only the controller can allocate. Such a decision
is made twice: first without one, which replies `NEEDS_PRODUCER_ID`, then with `fresh_id`.

A request that is not valid in the current state gets the error of Apache Kafka 4.3.1. tests/txn
lists these errors by state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision, Effect
from pk.core.meta.features import TRANSACTION_VERSION
from pk.core.meta.image import Changes, MetadataImage
from pk.core.txn.records import Record, decode_record, encode_record
from pk.core.txn.transaction import (
    EPOCH_MAX,
    FIRST_PROTOCOL,
    SECOND_PROTOCOL,
    STATES,
    State,
    Transaction,
)
from pk.core.values import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from pk.core.wire.messages.describe_transactions import TopicData
from pk.core.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from pk.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pk.core.wire.messages.list_transactions import TransactionState as ListedTransaction


class NeedsProducerId(Enum):
    """The reply of a decision that must be made again with a fresh producer id."""

    NEEDS_PRODUCER_ID = 0


NEEDS_PRODUCER_ID: Final = NeedsProducerId.NEEDS_PRODUCER_ID

Initialized: TypeAlias = InitProducerIdResponse | NeedsProducerId
Ended: TypeAlias = EndTxnResponse | NeedsProducerId
Reply = TypeVar("Reply")

EPOCH_BUMPING_END_SINCE: Final = 5
"""The first version of EndTxn that uses the second protocol, in which the epoch rises at each
end."""

TIME_OUTS: Final = "time-outs"
EXPIRATION: Final = "expiration"

EXPIRED_RECORDS_MAX: Final = 1000
"""The maximum number of tombstones in one round of expiry."""
EXPIRY_PAUSE_MS: Final = 100
"""The pause before the next round of expiry, if more ids have expired than fit in one."""

ABORTED_MAX: Final = 200
ABORTED_PARTITIONS_MAX: Final = 5000
"""The maximum numbers of transactions, and of their partitions, that one round of time-outs aborts.
A round is one batch of the log."""
TIME_OUT_PAUSE_MS: Final = 10


class ProducerKey(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    epoch: int


class SendMarkers(Effect, frozen=True):
    """Have the leaders of the partitions write the marker that ends the transaction, retrying
    without a time limit, and report those that did to `TransactionMachine.marked`."""

    transactional_id: str
    producer: ProducerKey
    committed: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int
    """The `transaction.version` in the WriteTxnMarkers requests (KIP-1228)."""


class Marked(NamedTuple):
    """A partial result of a `SendMarkers`: the partitions that are done."""

    transactional_id: str
    producer: ProducerKey
    partitions: Collection[TopicPartition]


class TransactionSettings(Struct, frozen=True):
    """The broker configs of transactions. The defaults are Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    time_out_check_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
    expiry_check_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`."""


class TransactionMachine:
    """The state machine of one partition of `__transaction_state`. Every method that decides takes
    `now_ms` last and returns a Decision."""

    log_is_compacted: ClassVar[bool] = True

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self.transaction_version = 0
        """The finalized level of the feature `transaction.version`."""
        self._ongoing: dict[str, None] = {}
        """The transactional ids in state Ongoing, as keys."""
        self._unmarked: dict[str, set[TopicPartition]] = {}
        """For each prepared transaction, the partitions that are not known to have its marker."""

    # --- InitProducerId ---

    def init_producer_id(
        self, request: InitProducerIdRequest, fresh_id: int | None, now_ms: int
    ) -> Decision[Record, Initialized]:
        """Decide InitProducerId 0–5 with a transactional id: gives the producer a new epoch. If an
        earlier instance left a transaction open, it is aborted instead, and the client must retry.

        Raises INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS;
        UNSUPPORTED_VERSION and TRANSACTIONAL_ID_AUTHORIZATION_FAILED for two-phase commit
        (KIP-939).
        """
        if request.enable2_pc:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.keep_prepared_txn:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if not 0 < request.transaction_timeout_ms <= self.settings.max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        expected = None
        if request.producer_id != NO_PRODUCER_ID:
            expected = ProducerKey(request.producer_id, request.producer_epoch)
        known = self.transactions.get(request.transactional_id or "")
        if known is None:
            return self._first_epoch(request, fresh_id, now_ms)
        if expected is not None and not _may_be_same_producer(expected, known):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is State.ONGOING:
            retry = InitProducerIdResponse(
                error_code=ErrorCode.CONCURRENT_TRANSACTIONS,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=NO_PRODUCER_EPOCH,
            )
            return self._fence_and_abort(known, now_ms, retry)
        return self._next_epoch(known, expected, request, fresh_id, now_ms)

    def _first_epoch(
        self, request: InitProducerIdRequest, fresh_id: int | None, now_ms: int
    ) -> Decision[Record, Initialized]:
        """Give an unknown transactional id a new producer id with epoch 0."""
        if fresh_id is None:
            return Decision(reply=NEEDS_PRODUCER_ID)
        return self._producer_reply(
            Transaction(
                request.transactional_id or "",
                fresh_id,
                0,
                request.transaction_timeout_ms,
                updated_ms=now_ms,
                previous_producer_id=fresh_id,
            )
        )

    def _next_epoch(
        self,
        known: Transaction,
        expected: ProducerKey | None,
        request: InitProducerIdRequest,
        fresh_id: int | None,
        now_ms: int,
    ) -> Decision[Record, Initialized]:
        """Give a producer without an open transaction its next epoch, or a new producer id with
        epoch 0 if its epochs are exhausted. `expected` is the client's current id and epoch, if it
        has them. Raises PRODUCER_FENCED."""
        begun: dict[str, Any] = {
            "timeout_ms": request.transaction_timeout_ms,
            "partitions": frozenset(),
            "started_ms": NO_TIMESTAMP,
        }
        # The largest epoch is reserved for fencing and never given to a producer.
        exhausted = known.is_epoch_exhausted and (
            expected is None
            or expected.epoch == known.epoch
            or (known.epoch == EPOCH_MAX and expected.epoch == known.last_epoch)
        )
        if exhausted:
            if fresh_id is None:
                return Decision(reply=NEEDS_PRODUCER_ID)
            return self._producer_reply(
                known.moved(
                    State.EMPTY,
                    now_ms,
                    producer_id=fresh_id,
                    epoch=0,
                    last_epoch=NO_PRODUCER_EPOCH if expected is None else expected.epoch,
                    **begun,
                )
            )
        if expected is None:
            epoch, last_epoch = known.epoch + 1, NO_PRODUCER_EPOCH
        elif expected.epoch == known.epoch:
            epoch, last_epoch = known.epoch + 1, known.epoch
        elif expected.epoch == known.last_epoch:
            # The client repeats a request whose response was lost.
            epoch, last_epoch = known.epoch, known.last_epoch
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return self._producer_reply(
            known.moved(State.EMPTY, now_ms, epoch=epoch, last_epoch=last_epoch, **begun)
        )

    def _producer_reply(self, txn: Transaction) -> Decision[Record, Initialized]:
        reply = InitProducerIdResponse(producer_id=txn.producer_id, producer_epoch=txn.epoch)
        return Decision([Record(txn.transactional_id, txn)], reply)

    # --- partitions ---

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerKey,
        partitions: Iterable[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> Decision[Record, bool]:
        """Decide AddPartitionsToTxn and AddOffsetsToTxn: adds partitions to the transaction before
        the producer writes to them. Begins a transaction if none is open. `client_version` is the
        client's `transaction.version`. Replies True.

        Raises INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
        CONCURRENT_TRANSACTIONS.
        """
        txn = self._of_producer(transactional_id, producer)
        added = txn.partitions.union(partitions)
        if txn.state is State.ONGOING and len(added) == len(txn.partitions):
            return Decision(reply=True)
        after = txn.moved(
            State.ONGOING,
            now_ms,
            partitions=added,
            started_ms=txn.started_ms if txn.state is State.ONGOING else now_ms,
            client_version=client_version,
        )
        return Decision([Record(transactional_id, after)], reply=True)

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerKey,
        partitions: Iterable[TopicPartition],
        now_ms: int,
    ) -> Decision[Record, dict[TopicPartition, ErrorCode]]:
        """Decide AddPartitionsToTxn with `verify_only`, which leaders send before they append
        (KIP-890): replies with an error code for each partition, TRANSACTION_ABORTABLE for those
        that are not in the transaction. Raises the errors of `add_partitions`."""
        txn = self._of_producer(transactional_id, producer)
        return Decision(
            reply={
                tp: ErrorCode.NONE if tp in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE
                for tp in partitions
            }
        )

    def _of_producer(self, transactional_id: str, producer: ProducerKey) -> Transaction:
        """Return the transaction of a producer, after checking that the producer may add to it."""
        txn = self._known(transactional_id)
        if txn.producer_id != producer.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if txn.epoch != producer.epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if txn.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return txn

    def _known(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        txn = self.transactions.get(transactional_id)
        if txn is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return txn

    # --- EndTxn ---

    def end(
        self, request: EndTxnRequest, version: int, fresh_id: int | None, now_ms: int
    ) -> Decision[Record, Ended]:
        """Decide EndTxn 0–5. Once its record is stored, the transaction ends that way under any
        coordinator; the markers are sent after that. The reply contains the producer id and epoch
        of the next transaction (from version 5 on).

        Raises INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
        CONCURRENT_TRANSACTIONS (the transaction is already ending), INVALID_TXN_STATE.
        """
        txn = self._known(request.transactional_id)
        producer = ProducerKey(request.producer_id, request.producer_epoch)
        if version >= EPOCH_BUMPING_END_SINCE:
            return self._end_and_bump(txn, producer, request.committed, fresh_id, now_ms)
        return self._end(txn, producer, request.committed, now_ms)

    def _end(
        self, txn: Transaction, producer: ProducerKey, commit: bool, now_ms: int
    ) -> Decision[Record, Ended]:
        """End a transaction in the first protocol, in which the producer's epoch stays the same."""
        if txn.producer_id != producer.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if txn.epoch != producer.epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        match txn.state:
            case State.ONGOING:
                to = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
                return self._prepared(
                    txn.moved(to, now_ms, client_version=FIRST_PROTOCOL), EndTxnResponse()
                )
            case State.COMPLETE_COMMIT | State.COMPLETE_ABORT:
                if commit == (txn.state is State.COMPLETE_COMMIT):
                    return Decision(reply=EndTxnResponse())
            case State.PREPARE_COMMIT | State.PREPARE_ABORT:
                if commit == (txn.state is State.PREPARE_COMMIT):
                    raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            case _:
                pass
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)

    def _end_and_bump(
        self,
        txn: Transaction,
        producer: ProducerKey,
        commit: bool,
        fresh_id: int | None,
        now_ms: int,
    ) -> Decision[Record, Ended]:
        """End a transaction in the second protocol, in which the producer's epoch rises. A repeated
        request has an epoch that is one too low."""
        overflowed = (
            txn.previous_producer_id == producer.producer_id
            and producer.epoch == EPOCH_MAX - 1
            and txn.epoch == 0
        )
        bumped = txn.epoch == producer.epoch + 1
        if txn.producer_id != producer.producer_id and not overflowed:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        same = txn.epoch == producer.epoch
        if txn.state.is_prepared:
            valid = bumped
        elif txn.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
            valid = bumped or overflowed or same
        else:
            valid = same
        if not valid:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        repeated = bumped or overflowed
        if txn.state.is_prepared:
            if commit == (txn.state is State.PREPARE_COMMIT):
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        if txn.state is State.ONGOING:
            pass
        elif repeated:
            if commit == (txn.state is State.COMPLETE_COMMIT):
                reply = EndTxnResponse(producer_id=txn.producer_id, producer_epoch=txn.epoch)
                return Decision(reply=reply)
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        elif commit:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        next_id = NO_PRODUCER_ID
        if txn.is_epoch_exhausted:
            if fresh_id is None:
                return Decision(reply=NEEDS_PRODUCER_ID)
            next_id = fresh_id
        after = txn.moved(
            State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
            now_ms,
            epoch=min(txn.epoch + 1, EPOCH_MAX),
            last_epoch=txn.epoch,
            next_producer_id=next_id,
            client_version=SECOND_PROTOCOL,
            started_ms=txn.started_ms if txn.state is State.ONGOING else now_ms,
        )
        if next_id == NO_PRODUCER_ID:
            reply = EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)
        else:
            reply = EndTxnResponse(producer_id=next_id, producer_epoch=0)
        return self._prepared(after, reply)

    def _fence_and_abort(
        self, txn: Transaction, now_ms: int, reply: Reply
    ) -> Decision[Record, Reply]:
        """Abort the open transaction under the next epoch, which fences its producer. As in Apache
        Kafka, the fenced producer may still request a new epoch with the one that it has."""
        second = self.transaction_version >= SECOND_PROTOCOL
        after = txn.moved(
            State.PREPARE_ABORT,
            now_ms,
            epoch=min(txn.epoch + 1, EPOCH_MAX),
            last_epoch=txn.epoch,
            client_version=self.transaction_version if second else FIRST_PROTOCOL,
        )
        return self._prepared(after, reply)

    def _prepared(self, after: Transaction, reply: Reply) -> Decision[Record, Reply]:
        return Decision(
            [Record(after.transactional_id, after)], reply, effects=[_markers_of(after)]
        )

    def marked(self, written: Iterable[Marked], now_ms: int) -> Decision[Record, bool]:
        """Note partitions that have their marker, or never need one. A transaction completes when
        no partition is left. Results for a transaction that is no longer prepared are ignored."""
        decision: Decision[Record, bool] = Decision(reply=True, atomic=False)
        for transactional_id, producer, partitions in written:
            txn = self.transactions.get(transactional_id)
            unmarked = self._unmarked.get(transactional_id)
            if txn is None or unmarked is None or (txn.producer_id, txn.epoch) != producer:
                continue
            unmarked.difference_update(partitions)
            if not unmarked:
                decision.records.append(Record(transactional_id, txn.completed(now_ms)))
        return decision

    # --- requests of operators ---

    def describe(
        self, transactional_ids: list[str], now_ms: int
    ) -> Decision[Record, list[DescribedTransaction]]:
        """Decide DescribeTransactions 0: replies with a description of each id."""
        return Decision(reply=[self._describe(one) for one in transactional_ids])

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        described = DescribedTransaction(transactional_id=transactional_id)
        if not transactional_id:
            described.error_code = ErrorCode.INVALID_REQUEST
            return described
        txn = self.transactions.get(transactional_id)
        if txn is None:
            described.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            return described
        described.producer_id, described.producer_epoch = txn.producer_id, txn.epoch
        described.transaction_state = txn.state.kafka_name
        described.transaction_timeout_ms = txn.timeout_ms
        described.transaction_start_time_ms = txn.started_ms
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(txn.partitions):
            topics.setdefault(topic, []).append(partition)
        described.topics = [TopicData(topic=t, partitions=p) for t, p in topics.items()]
        return described

    def list_transactions(
        self,
        state_names: Collection[str],
        producer_ids: Collection[int],
        longer_than_ms: int,
        matches: Callable[[str], bool] | None,
        now_ms: int,
    ) -> Decision[Record, list[ListedTransaction]]:
        """Decide ListTransactions 0–2: replies with the transactions that are in one of the states,
        belong to one of the producers, were started more than `longer_than_ms` ago (negative: at
        any time), and have an id that `matches`. An empty filter matches all transactions. An
        unknown state matches none."""
        states = {STATES[name] for name in state_names if name in STATES}
        listed: list[ListedTransaction] = []
        for txn in self.transactions.values():
            if (
                (not producer_ids or txn.producer_id in producer_ids)
                and (not state_names or txn.state in states)
                and (longer_than_ms < 0 or now_ms - txn.started_ms > longer_than_ms)
                and (matches is None or matches(txn.transactional_id))
            ):
                listed.append(
                    ListedTransaction(
                        transactional_id=txn.transactional_id,
                        producer_id=txn.producer_id,
                        transaction_state=txn.state.kafka_name,
                    )
                )
        return Decision(reply=listed)

    # --- time ---

    def follow(self, image: MetadataImage, delta: Changes, now_ms: int) -> Decision[Record, None]:
        """Adopt the finalized `transaction.version` of a new image."""
        self.transaction_version = image.features.get(TRANSACTION_VERSION, 0)
        return Decision()

    def loaded(self, now_ms: int) -> Decision[Record, None]:
        """Complete the prepared transactions and start the timers. The log has been replayed to its
        end."""
        settings = self.settings
        return Decision(
            effects=[_markers_of(self.transactions[one]) for one in self._unmarked],
            timers=[
                (TIME_OUTS, now_ms + settings.time_out_check_interval_ms),
                (EXPIRATION, now_ms + settings.expiry_check_interval_ms),
            ],
        )

    def fire(self, key: Any, now_ms: int) -> Decision[Record, None]:
        """Handle a timer that `loaded` has set: abort transactions that are open for too long, or
        delete unused ids."""
        return self._time_out(now_ms) if key == TIME_OUTS else self._expire(now_ms)

    def _time_out(self, now_ms: int) -> Decision[Record, None]:
        decision: Decision[Record, None] = Decision()
        pause_ms, partitions = self.settings.time_out_check_interval_ms, 0
        for transactional_id in self._ongoing:
            txn = self.transactions[transactional_id]
            if txn.started_ms + txn.timeout_ms >= now_ms:
                continue
            partitions += len(txn.partitions)
            if decision.records and (
                len(decision.records) >= ABORTED_MAX or partitions > ABORTED_PARTITIONS_MAX
            ):
                pause_ms = TIME_OUT_PAUSE_MS
                break
            aborted = self._fence_and_abort(txn, now_ms, None)
            decision.records += aborted.records
            decision.effects += aborted.effects
        decision.timers.append((TIME_OUTS, now_ms + pause_ms))
        return decision

    def _expire(self, now_ms: int) -> Decision[Record, None]:
        decision: Decision[Record, None] = Decision(atomic=False)
        pause_ms = self.settings.expiry_check_interval_ms
        for txn in self.transactions.values():
            if not txn.state.is_idle or now_ms - txn.updated_ms < self.settings.id_expiration_ms:
                continue
            if len(decision.records) >= EXPIRED_RECORDS_MAX:
                pause_ms = EXPIRY_PAUSE_MS
                break
            decision.records.append(Record(txn.transactional_id, None))
        decision.timers.append((EXPIRATION, now_ms + pause_ms))
        return decision

    # --- the log ---

    def encode(self, record: Record, /) -> tuple[bytes, bytes | None]:
        """Encode a record as the (key, value) of the finalized `transaction.version`."""
        return encode_record(record, 1 if self.transaction_version >= 1 else 0)

    decode = staticmethod(decode_record)

    def replay(self, record: Record, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log, at `record_offset`. Only this method changes durable state."""
        transactional_id, txn = record
        self._ongoing.pop(transactional_id, None)
        self._unmarked.pop(transactional_id, None)
        if txn is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = txn
        if txn.state is State.ONGOING:
            self._ongoing[transactional_id] = None
        elif txn.state.is_prepared:
            self._unmarked[transactional_id] = set(txn.partitions)

    def replay_end_marker(self, producer_id: int, *, committed: bool) -> None:
        """Do nothing: no producer writes to this topic in a transaction."""


def _may_be_same_producer(expected: ProducerKey, known: Transaction) -> bool:
    """Whether the producer id and epoch `expected` by a client may be those of the known producer.
    The caller checks the epoch."""
    if expected.producer_id == known.producer_id:
        return True
    return expected.producer_id == known.previous_producer_id and expected.epoch >= EPOCH_MAX - 1


def _markers_of(txn: Transaction) -> SendMarkers:
    return SendMarkers(
        txn.transactional_id,
        ProducerKey(txn.producer_id, txn.epoch),
        txn.state is State.PREPARE_COMMIT,
        txn.partitions,
        txn.client_version,
    )
