"""Producers whose transactions write to several partitions, and a reader that must see each
transaction whole or not at all.

A transaction writes one record to every partition of its topic, named by the producer and the
number of the transaction. `Ledger` notes the outcome that the producer got. If it got no certain
outcome, the transaction may be committed or aborted, but not both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import trio
from sim.chronicle import Violation
from sim.clients import (
    AGAIN,
    PRODUCE_MS,
    REQUEST_MS,
    Place,
    SimClient,
    fetch_request,
    produce_request,
)

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, error_name
from pk.core.record.batch import Record, iter_headers, records
from pk.core.record.build import build_batch
from pk.core.wire.messages.end_txn import EndTxnRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest

STATE_TOPIC: Final = "__transaction_state"
READ_COMMITTED: Final = 1

LATER: Final = AGAIN | {ErrorCode.CONCURRENT_TRANSACTIONS}
"""After these a request is sent again as it was."""

OVER: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""After these the transaction cannot commit any more: the producer begins again under a new
epoch."""


@dataclass(slots=True)
class Ledger:
    """The known facts about every transaction of a run, by (producer's name, number)."""

    topic: str
    partitions: int
    ended: dict[tuple[str, int], bool | None] = field(default_factory=dict)
    """Whether it was committed; None if that is unknown."""
    seen: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """The partitions in which a reader of committed records saw it."""
    places: set[tuple[int, int]] = field(default_factory=set)
    """(partition, offset) of every record that a reader of committed records saw."""

    def end(self, transaction: tuple[str, int], committed: bool | None) -> None:
        """A producer was told, or not, how its transaction ended."""
        self.ended[transaction] = committed
        if committed is False and transaction in self.seen:
            self.aborted(transaction)

    def read(self, transaction: tuple[str, int], partition: int) -> None:
        """A reader of committed records saw it in a partition."""
        seen = self.seen.setdefault(transaction, set())
        if partition in seen:
            raise Violation(
                "a transaction is seen once", f"{transaction} twice in {partition}", self.topic
            )
        seen.add(partition)
        if self.ended.get(transaction) is False:
            self.aborted(transaction)

    def aborted(self, transaction: tuple[str, int]) -> None:
        raise Violation(
            "nothing of an aborted transaction is seen",
            f"{transaction} is seen in {sorted(self.seen[transaction])}",
            self.topic,
        )

    def torn(self) -> str:
        """A transaction that is not seen whole, and should be by now; "" if there is none."""
        for transaction, seen in self.seen.items():
            if len(seen) != self.partitions:
                return f"{transaction} is seen in {sorted(seen)} only"
        for transaction, committed in self.ended.items():
            if committed and transaction not in self.seen:
                return f"{transaction} was committed and is not seen"
        return ""


class Over(Exception):
    """The transaction cannot go on."""


class Transactor(SimClient):
    """A client that sends the requests of transactions of the second protocol (KIP-890), without a
    plan."""

    def __init__(self, *args: Any, topic: str, timeout_ms: int) -> None:
        super().__init__(*args)
        self.topic = topic
        self.timeout_ms = timeout_ms
        self.transactional_id = str(self.process.name)
        self.producer_id = self.epoch = -1
        self.coordinator = -1

    async def init(self) -> None:
        """InitProducerId: get a new epoch; an open transaction is aborted. Raises Over."""
        answer = await self._coordinated(
            lambda: InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
            )
        )
        self.judge(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.note(f"has producer id {self.producer_id}, epoch {self.epoch}")

    async def end(self, *, commit: bool) -> None:
        """EndTxn: returns once it is settled. Raises Over."""
        answer = await self._coordinated(
            lambda: EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            )
        )
        self.judge(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def _coordinated(self, make: Any) -> Any:
        """The coordinator's answer, as soon as it is not one to ask again after."""
        while True:
            try:
                if self.coordinator < 0:
                    await self._find_transaction_coordinator()
                answer = await self.ask(self.coordinator, make())
            except PeerLost:
                self.coordinator = -1
                await self.pause()
                continue
            if answer.error_code not in LATER:
                return answer
            if answer.error_code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ):
                self.coordinator = -1
            await self.pause()

    async def _find_transaction_coordinator(self) -> None:
        answer = await self.ask_any(
            FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        )
        (one,) = answer.coordinators
        if one.error_code:
            raise PeerLost("no coordinator")
        self.coordinator = one.node_id

    async def send(self, partition: int, values: list[bytes]) -> None:
        """The transaction's one batch for a partition. Raises Over."""
        now_ms = 1_700_000_000_000 + int(trio.current_time() * 1000)
        data = bytes(
            build_batch(
                [(now_ms, None, value, ()) for value in values],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=0,
                transactional=True,
            )
        )
        while True:
            place: Place = self.place(self.topic, partition)
            request = produce_request(place, data, -1, PRODUCE_MS)
            request.transactional_id = self.transactional_id
            try:
                answer = await self.ask(place.leader, request)
                code = answer.responses[0].partition_responses[0].error_code
            except PeerLost:
                code = ErrorCode.NETWORK_EXCEPTION
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                return
            if code not in LATER:
                self.judge(code)
            await self.pause()
            await self.refresh([self.topic])

    def judge(self, code: int) -> None:
        """Raise Over for an error after which the transaction is over, Violation for one that
        should not come."""
        if code in OVER:
            raise Over(error_name(code))
        if code and {STATE_TOPIC, self.topic} & self.history.unsafe:
            raise Over(error_name(code))
        if code:
            raise Violation(
                "a transactional producer goes on",
                f"{self.process}: {error_name(code)}",
                self.topic,
            )


class TransactionalProducer(Transactor):
    """One transaction after another, each with a record for every partition."""

    def __init__(self, *args: Any, ledger: Ledger, rate_s: float, timeout_ms: int) -> None:
        super().__init__(*args, topic=ledger.topic, timeout_ms=timeout_ms)
        self.ledger = ledger
        self.rate_s = rate_s
        self.number = 0
        self.open = False
        self.undone: tuple[str, int] | None = None
        """A transaction whose commit was never asked for: fencing aborts it."""

    async def run(self) -> None:
        """Begin, write, end, for ever."""
        await self.places(self.ledger.topic, self.ledger.partitions)
        while True:
            await trio.sleep(self.rate_s * self.random.random() * 2)
            if self.idle and not self.open:
                continue
            self.open = True
            try:
                if self.producer_id < 0:
                    await self.init()
                    if self.undone is not None:
                        self.ledger.end(self.undone, False)
                        self.undone = None
                    self.open = False  # the transaction open before is over
                    continue
                await self._transact()
            except Over as e:
                self.note(f"begins again: {e}")
                self.producer_id = -1

    async def _transact(self) -> None:
        ledger, self.number = self.ledger, self.number + 1
        transaction = (self.transactional_id, self.number)
        commit = self.random.random() < 0.7
        ledger.ended[transaction] = None
        self.undone = transaction
        for partition in range(ledger.partitions):
            await self.send(partition, [f"{self.transactional_id} {self.number}".encode()])
            if self.random.random() < 0.1:
                await trio.sleep(self.random.random() * 3)
            if self.random.random() < 0.05:
                raise Over("it dies, and starts again")
        if commit:
            self.undone = None
        await self.end(commit=commit)
        ledger.end(transaction, commit)
        self.undone = None
        self.open = False


class CommittedReader(SimClient):
    """Reads committed records of every partition of a topic, from the beginning."""

    def __init__(self, *args: Any, topic: str, partitions: int) -> None:
        super().__init__(*args)
        self.topic = topic
        self.positions = dict.fromkeys(range(partitions), 0)

    def take(self, partition: int, record: Record) -> None:
        """A committed record was read."""
        raise NotImplementedError

    async def run(self) -> None:
        """Read for ever."""
        await self.places(self.topic, len(self.positions))
        while True:
            for partition in self.positions:
                found = await fetch_committed(self, self.topic, self.positions, partition)
                if found is None:
                    await self.pause()
                    await self.refresh([self.topic])
                elif not {self.topic, STATE_TOPIC} & self.history.unsafe:
                    for record in found[0]:
                        self.take(partition, record)
                    self.positions[partition] = found[1]


class LedgerReader(CommittedReader):
    """Compares the records that it reads with the outcomes that the transactional producers got."""

    def __init__(self, *args: Any, ledger: Ledger, late: bool = False) -> None:
        super().__init__(*args, topic=ledger.topic, partitions=ledger.partitions)
        self.ledger = ledger
        self.late = late
        """Whether it begins when the faults are over, and reads what the logs hold then."""

    async def run(self) -> None:
        """Read for ever."""
        while self.late and not self.idle:
            await self.pause()
        await super().run()

    def take(self, partition: int, record: Record) -> None:
        """See `CommittedReader`."""
        name, number = (record.value or b"").decode().split()
        self.ledger.read((name, int(number)), partition)
        self.ledger.places.add((partition, record.offset))


async def fetch_committed(
    client: SimClient, topic: str, positions: Mapping[int, int], partition: int
) -> tuple[list[Record], int] | None:
    """The committed records of one partition from a position on, and the position after them; None
    if its leader answered with an error."""
    place = client.place(topic, partition)
    request = fetch_request([place], dict(positions), 300)
    request.isolation_level = READ_COMMITTED
    try:
        answer = await client.ask(place.leader, request, REQUEST_MS)
    except PeerLost:
        return None
    (one,) = (p for r in answer.responses for p in r.partitions)
    if one.error_code:
        return None
    raw, position = bytes(one.records or b""), positions[partition]
    aborted = sorted(one.aborted_transactions or (), key=lambda a: a.first_offset)
    dropped: set[int] = set()
    found: list[Record] = []
    end = position
    for at, header in iter_headers(raw):
        while aborted and aborted[0].first_offset <= header.last_offset:
            dropped.add(aborted.pop(0).producer_id)
        if header.is_control:
            dropped.discard(header.producer_id)
        elif header.producer_id not in dropped and header.base_offset >= position:
            found += records(raw[at : at + header.size], header)
        end = max(end, header.next_offset)
    return found, end
