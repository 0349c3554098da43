"""A transaction machine with a log: its decisions are encoded, decoded and replayed, as its
coordinator would do."""

from __future__ import annotations

from typing import Any

from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.txn.machine import (
    NEEDS_PRODUCER_ID,
    Marked,
    ProducerKey,
    SendMarkers,
    TransactionMachine,
    TransactionSettings,
)
from pk.core.txn.records import Record
from pk.core.txn.transaction import State, Transaction
from pk.core.values import TopicPartition
from pk.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

START_MS = 1_000_000
TIMEOUT_MS = 60_000
A, B = TopicPartition("a", 0), TopicPartition("b", 3)


class Coordinator:
    """The machine of one partition; producer ids count from 1000."""

    def __init__(
        self, settings: TransactionSettings | None = None, transaction_version: int = 2
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.version = transaction_version
        self.machine = self._machine()
        self.next_id = 1000
        self.markers: list[SendMarkers] = []
        """Effects that are not carried out yet."""
        self.timers: dict[Any, int] = {}
        self.take(self.machine.loaded(self.now_ms))

    def _machine(self) -> TransactionMachine:
        machine = TransactionMachine(self.settings)
        machine.transaction_version = self.version
        return machine

    def take(self, decision: Decision[Record, Any]) -> Any:
        """Append, replay, keep the effects; the reply."""
        for record in decision.records:
            key, value = self.machine.encode(record)
            self.log.append((key, value))
            assert self.machine.decode(key, value) == _without_soft(record, self.version)
            self.machine.replay(record, len(self.log) - 1)
        self.markers += [one for one in decision.effects if isinstance(one, SendMarkers)]
        for key, when_ms in decision.timers:
            assert when_ms is not None
            self.timers[key] = when_ms
        return decision.reply

    def fail_over(self) -> None:
        """Another coordinator reads the log."""
        self.machine = self._machine()
        for offset, (key, value) in enumerate(self.log):
            record = self.machine.decode(key, value)
            assert record is not None
            self.machine.replay(record, offset)
        self.markers, self.timers = [], {}
        self.take(self.machine.loaded(self.now_ms))

    def after(self, ms: int) -> None:
        """Let time pass; timers fire."""
        until = self.now_ms + ms
        while self.timers and min(self.timers.values()) <= until:
            key = min(self.timers, key=lambda k: self.timers[k])
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.take(self.machine.fire(key, self.now_ms))
        self.now_ms = until

    def txn(self, transactional_id: str = "t") -> Transaction:
        return self.machine.transactions[transactional_id]

    def state(self, transactional_id: str = "t") -> State:
        return self.txn(transactional_id).state

    def set(self, **changed: Any) -> None:
        """Have the log say something else of "t"."""
        known = self.machine.transactions.get("t") or Transaction("t", 1000, 0, TIMEOUT_MS)
        self.take(Decision([Record("t", known._replace(**changed))]))

    # --- clients ---

    def init(
        self,
        transactional_id: str = "t",
        producer: ProducerKey | None = None,
        timeout_ms: int = TIMEOUT_MS,
        **fields: Any,
    ) -> ProducerKey | ErrorCode:
        """InitProducerId: what the producer gets, or the error."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **fields
        )
        if producer is not None:
            request.producer_id, request.producer_epoch = producer
        try:
            reply = self.take(self.machine.init_producer_id(request, None, self.now_ms))
            if reply == NEEDS_PRODUCER_ID:
                reply = self.take(self.machine.init_producer_id(request, self.fresh(), self.now_ms))
        except KafkaError as e:
            return ErrorCode(e.code)
        assert isinstance(reply, InitProducerIdResponse)
        if reply.error_code:
            return ErrorCode(reply.error_code)
        return ProducerKey(reply.producer_id, reply.producer_epoch)

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def add(
        self, producer: ProducerKey, *partitions: TopicPartition, client_version: int = 2
    ) -> ErrorCode:
        """AddPartitionsToTxn."""
        try:
            self.take(
                self.machine.add_partitions("t", producer, partitions, client_version, self.now_ms)
            )
        except KafkaError as e:
            return ErrorCode(e.code)
        return ErrorCode.NONE

    def verify(self, producer: ProducerKey, *partitions: TopicPartition) -> list[ErrorCode]:
        """AddPartitionsToTxn with verify_only; an error by partition."""
        try:
            found = self.take(
                self.machine.verify_partitions("t", producer, partitions, self.now_ms)
            )
        except KafkaError as e:
            return [ErrorCode(e.code)] * len(partitions)
        return [found[tp] for tp in partitions]

    def end(
        self, producer: ProducerKey, *, commit: bool = True, version: int = 5
    ) -> ProducerKey | ErrorCode:
        """EndTxn: the producer of the next transaction, or the error."""
        request = EndTxnRequest(
            transactional_id="t",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        try:
            reply = self.take(self.machine.end(request, version, None, self.now_ms))
            if reply == NEEDS_PRODUCER_ID:
                reply = self.take(self.machine.end(request, version, self.fresh(), self.now_ms))
        except KafkaError as e:
            return ErrorCode(e.code)
        assert isinstance(reply, EndTxnResponse)
        return ProducerKey(reply.producer_id, reply.producer_epoch)

    def mark(self, *only: TopicPartition) -> None:
        """Have the leaders take the markers that are due: of all partitions, or of `only` these."""
        due, self.markers = self.markers, []
        for effect in due:
            partitions = only or effect.partitions
            marked = Marked(effect.transactional_id, effect.producer, partitions)
            self.take(self.machine.marked([marked], self.now_ms))
            if not effect.partitions <= set(partitions):
                self.markers.append(effect)


def _without_soft(record: Record, version: int) -> Record:
    """The part of a record that the log keeps."""
    txn = record.transaction
    if txn is None:
        return record
    if version < 1:
        txn = txn._replace(client_version=0, previous_producer_id=-1, next_producer_id=-1)
    return Record(record.transactional_id, txn._replace(last_epoch=-1))
