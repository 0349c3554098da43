"""One transactional id: its producer, and the state of its transaction.

    Empty ─add─▶ Ongoing ─commit─▶ PrepareCommit ─all markers─▶ CompleteCommit ─add─▶ Ongoing …
                    └─────abort──▶ PrepareAbort ──all markers─▶ CompleteAbort ──add─▶ Ongoing …

A *prepare* is the point of no return: once it is in the log, the transaction ends that way under
any coordinator. The coordinator then sends a marker to each partition of the transaction, and
writes *complete* when all of them have it.

The producer's epoch fences earlier instances: a new instance gets a higher epoch (InitProducerId),
and requests with a lower one are refused. In the second protocol (`transaction.version` 2, KIP-890)
each end of a transaction raises the epoch too, so that a late request of one transaction never
counts for the next. The epoch has 16 bits. At the last value but one it is *exhausted*, and the
producer continues under another producer id with epoch 0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from pk.core.values import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TopicPartition,
)

FIRST_PROTOCOL: Final = 0
SECOND_PROTOCOL: Final = 2
"""The second protocol of producers, in which each end of a transaction raises the epoch. The
numbers of the protocols are values of `transaction.version`. (Version 1 has the first protocol,
with other records in the log.)"""

EPOCH_MAX: Final = (1 << 15) - 1
LAST_EPOCH_IN_USE: Final = EPOCH_MAX - 1
"""The last epoch that a producer is given. The one after it is reserved for fencing."""


class State(IntEnum):
    """The state of a transaction, numbered as in the log."""

    EMPTY = 0
    """No transaction has begun under this epoch."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Apache Kafka's state of an id that is about to be deleted. pk never writes it."""
    PREPARE_EPOCH_FENCE = 7
    """Apache Kafka's state of a producer that is about to be fenced. pk never writes it."""

    @property
    def kafka_name(self) -> str:
        """The name that Kafka prints, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, but some partitions may still lack the marker."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open. An id in such a state may expire."""
        return self in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


STATES: Final = {state.kafka_name: state for state in State}

NEXT: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.COMPLETE_ABORT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
}
"""The states that a decision may reach from each state. An abort without a transaction (Empty,
Complete… → PrepareAbort) exists only in the second protocol, and only raises the epoch."""


class Transaction(NamedTuple):
    """The immutable state of one transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    """How long a transaction may be open before the coordinator aborts it."""
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIMESTAMP
    """When the transaction began, or -1 if none has begun under this epoch."""
    updated_ms: int = NO_TIMESTAMP
    client_version: int = FIRST_PROTOCOL
    """The `transaction.version` of the client of this transaction: 2 for the second protocol,
    otherwise 0."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change of state, which may have changed it."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id for the time after the transaction, or -1 to keep the current one."""
    last_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the last increment, or -1 if another instance requested that. A producer
    that requests a new epoch with this one repeats its request, or its transaction was aborted. The
    log does not contain this field. A new coordinator therefore takes such a repetition for a
    request of a fenced producer, as Kafka does."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer needs another producer id before its epoch can rise again."""
        return self.epoch >= LAST_EPOCH_IN_USE

    def moved(self, state: State, now_ms: int, **changed: object) -> Transaction:
        """Return the transaction in another state, as of `now_ms`. Asserts that `NEXT` allows the
        change."""
        assert state in NEXT[self.state], f"{self.transactional_id}: {self.state!r} → {state!r}"
        changed.setdefault("previous_producer_id", self.producer_id)
        return self._replace(state=state, updated_ms=now_ms, **changed)  # pyright: ignore[reportArgumentType]

    def completed(self, now_ms: int) -> Transaction:
        """Return the transaction in its complete state: every partition has its marker."""
        committed = self.state is State.PREPARE_COMMIT
        after = self.moved(
            State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT,
            now_ms,
            partitions=frozenset[TopicPartition](),
            next_producer_id=NO_PRODUCER_ID,
        )
        if self.next_producer_id == NO_PRODUCER_ID:
            return after
        return after._replace(producer_id=self.next_producer_id, epoch=0)
