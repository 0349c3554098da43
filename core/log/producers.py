"""The producer state of a log: idempotence and open transactions (KIP-98), in Kafka's snapshot
format.

A producer numbers its batches (producer id, producer epoch, sequence). The log accepts each number
once and in order; for a batch that was sent again because its response was lost, it returns the old
offset. The checks use the state after the producer's last batch in *this* log, with its last five
batches. So a new leader, which has the same log, gives the same results, and lost state can be read
from the log again.

    an unknown producer id      may begin with any sequence: retention may have deleted its batches
    a stale epoch               INVALID_PRODUCER_EPOCH (47)
    a new epoch                 begins at sequence 0, else OUT_OF_ORDER_SEQUENCE_NUMBER (45)
    among the last five         a duplicate: its old offset
    any other sequence          45, also for an older duplicate
    sequences                   wrap from 2³¹ - 1 to 0
    the first of a transaction  INVALID_TXN_STATE unless its coordinator was asked (`Verification`,
                                KIP-890)

A snapshot (`<offset>.snapshot`: the state before that offset) is written when a segment begins and
when the log is closed, so that opening a log replays the headers of at most one segment:

    version int16 = 1, CRC-32C uint32 of the rest, count int32, each: producer id int64, epoch
    int16, last sequence int32, last offset int64, offset delta int32, timestamp int64, coordinator
    epoch int32, first offset of the open transaction int64
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import (
    CONTROL_BIT,
    SEQUENCES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Record,
)
from pk.core.record.build import ControlType, control_type, coordinator_epoch
from pk.core.record.crc import crc32c
from pk.core.values import NO_OFFSET, NO_PRODUCER_EPOCH, NO_SEQUENCE

BATCHES_KEPT: Final = 5
"""A producer may have five batches in flight, each of which may be sent again."""

_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_FROM: Final = 6
SNAPSHOT_VERSION: Final = 1
EMPTY_SNAPSHOT_BYTES: Final = _SNAPSHOT_HEAD.size


class SentBatch(NamedTuple):
    """A batch that a producer sent: its last sequence and last offset, the distance from its first
    offset to the last, and its timestamp."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record."""
        return (self.last_sequence - self.offset_delta) % SEQUENCES


class ProducerState:
    """The state of one producer in this log."""

    __slots__ = (
        "abridged",
        "batches",
        "coordinator_epoch",
        "epoch",
        "producer_id",
        "seen_ms",
        "timestamp",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[SentBatch] = []
        """The last five batches of this epoch, in order."""
        self.abridged = False
        """Whether earlier batches of this epoch are only in the log, because a snapshot contains
        only the last batch."""
        self.coordinator_epoch = -1
        self.txn_first_offset = NO_OFFSET
        self.timestamp = -1
        """The timestamp of the last batch or marker, in ms."""
        self.seen_ms = 0
        """When this broker last received something from the producer, in ms, from which expiration
        is counted. The timestamps of records are not used, since the producer chooses them."""

    @property
    def last_sequence(self) -> int:
        """The last sequence in this epoch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The last offset in this epoch, or -1."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET


class Verification:
    """A check with a producer's transaction coordinator that this partition is part of the
    transaction (KIP-890).

    The log keeps the verification from the request until the first batch of the transaction is
    appended. A marker in between ends it: the answer may be about a transaction that is over, and a
    batch after its marker would stay undecided forever.

    In the second protocol a marker has a higher epoch than its transaction. So the marker of the
    previous transaction, which often arrives while the coordinator is asked, does not end the
    verification.
    """

    __slots__ = ("epoch", "lowest_sequence", "second_protocol", "seen_ms")

    def __init__(
        self, epoch: int, lowest_sequence: int, seen_ms: int, *, second_protocol: bool
    ) -> None:
        self.epoch = epoch
        self.second_protocol = second_protocol
        self.lowest_sequence = lowest_sequence
        """The sequence with which the transaction begins in this log: a later batch must not
        overtake an earlier one that is retried."""
        self.seen_ms = seen_ms


class ActiveProducer(NamedTuple):
    """A producer as returned by DescribeProducers (KIP-664); missing values are -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_txn_start_offset: int


class CorruptSnapshot(Exception):
    """A truncated snapshot, or one with a wrong CRC."""


class FrozenProducers:
    """The producers of a log at the time of creation, so that a thread can write them while the log
    is appended to.

    Only references are copied. Code that changes a producer calls `keep` first, and `snapshot`
    replaces the entries that it has read with the kept ones.
    """

    __slots__ = ("_before", "_states")

    def __init__(self, states: dict[int, ProducerState]) -> None:
        self._states = states.copy()
        self._before: dict[int, bytes] = {}
        """Producer id → its snapshot entry before its first change."""

    def keep(self, state: ProducerState) -> None:
        """Keep the state of a producer before it changes."""
        if state.producer_id not in self._before and self._states.get(state.producer_id) is state:
            self._before[state.producer_id] = _entry(state)

    @property
    def is_over(self) -> bool:
        """Whether `release` was called."""
        return not self._states

    def release(self) -> None:
        """Free the memory, when the state is no longer needed."""
        self._states, self._before = {}, {}

    def snapshot(self) -> bytes:
        """Format the content of a snapshot file. May run in a thread."""
        states, size = self._states, _SNAPSHOT_ENTRY.size
        content = bytearray(_SNAPSHOT_HEAD.size)
        content += b"".join(map(_entry, states.values()))
        # The entries of producers that changed in the meantime were kept before the change.
        for position, producer_id in enumerate(states):
            if (entry := self._before.get(producer_id)) is not None:
                start = _SNAPSHOT_HEAD.size + position * size
                content[start : start + size] = entry
        _SNAPSHOT_HEAD.pack_into(content, 0, SNAPSHOT_VERSION, 0, len(states))
        with memoryview(content) as view:
            crc = crc32c(view[_CRC_FROM:])
        _SNAPSHOT_HEAD.pack_into(content, 0, SNAPSHOT_VERSION, crc, len(states))
        return bytes(content)


def _entry(state: ProducerState) -> bytes:
    """Encode a producer's entry in a snapshot."""
    last = state.batches[-1:]  # in one step: the list may change while a thread runs this
    sequence, offset, delta, _ = last[0] if last else (NO_SEQUENCE, NO_OFFSET, 0, 0)
    return _SNAPSHOT_ENTRY.pack(
        state.producer_id,
        state.epoch,
        sequence,
        offset,
        delta,
        state.timestamp,
        state.coordinator_epoch,
        state.txn_first_offset,
    )


class Producers:
    """The producers of one log. All batches before `next_offset` have been applied."""

    def __init__(self, next_offset: int = 0) -> None:
        self.next_offset = next_offset
        self._states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction → its producer, in order of the offsets."""
        self._ended: list[tuple[int, int]] = []
        """(first offset, offset of the marker) of ended transactions whose markers may not be
        replicated yet."""
        self._verifications: dict[int, Verification] = {}
        """Verifications by producer id. Only a leader keeps them."""
        self._frozen: list[FrozenProducers] = []
        """The frozen states, which keep a producer before it changes."""

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(list(self._states.values()))

    def get(self, producer_id: int) -> ProducerState | None:
        """Return the state of a producer; None if it is unknown."""
        return self._states.get(producer_id)

    def active(self) -> list[ActiveProducer]:
        """Describe every known producer."""
        return [
            ActiveProducer(
                s.producer_id,
                s.epoch,
                s.last_sequence,
                s.timestamp,
                s.coordinator_epoch,
                s.txn_first_offset,
            )
            for s in self
        ]

    # --- checks ---

    def check(self, header: BatchHeader) -> SentBatch | None:
        """Check a client's batch with a producer id. Returns None if it may be appended, or the
        batch that it duplicates.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        epoch, first = header.producer_epoch, header.base_sequence
        batches = state.batches
        if epoch == state.epoch:
            if batches:
                last = batches[-1].last_sequence
                if first != last + 1 and (first or last != SEQUENCES - 1):
                    if (repeated := _repeated(header, batches)) is not None:
                        return repeated
                    raise _out_of_order(header, f"follows {last}")
            elif first:
                raise _out_of_order(header, "begins this epoch")
        elif epoch < state.epoch:
            raise _stale(header, state)
        elif first and state.epoch != NO_PRODUCER_EPOCH:
            raise _out_of_order(header, "begins a new epoch")
        if state.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                (
                    f"producer {header.producer_id} has a transaction open and sent a batch "
                    "outside of it"
                ),
            )
        return None

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Return whether a transaction of this producer is open in this log."""
        state = self._states.get(producer_id)
        return state is not None and state.txn_first_offset >= 0 and state.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, second_protocol: bool
    ) -> Verification:
        """Note that the coordinator is asked about the transaction that a batch with this sequence
        would begin here. `second_protocol` says that the producer's epoch rises with each
        transaction."""
        known = self._verifications.get(producer_id)
        if known is None or known.epoch < epoch:
            known = self._verifications[producer_id] = Verification(
                epoch, sequence, now_ms, second_protocol=second_protocol
            )
        elif known.epoch == epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
            known.seen_ms = now_ms
        else:
            # The producer is fenced, so this verification never allows an append.
            return Verification(epoch, sequence, now_ms, second_protocol=second_protocol)
        return known

    def is_verified(self, producer_id: int, epoch: int, verification: Verification | None) -> bool:
        """Return whether a transaction may continue or begin here: it is open, or no marker has
        come since `verification` began."""
        if self.has_open(producer_id, epoch):
            return True
        return verification is not None and self._verifications.get(producer_id) is verification

    def drop_verification(self, producer_id: int) -> None:
        """Drop the verification, because the coordinator does not know the transaction."""
        self._verifications.pop(producer_id, None)

    def check_verified(
        self, header: BatchHeader, verification: Verification | None, *, from_zero: bool
    ) -> None:
        """Check a client's transactional batch: its transaction must be open here, or
        `verification` must allow it to begin. `from_zero` is for producers of the second protocol,
        who begin every epoch at sequence 0.

        As in Kafka, a duplicate of one of the last five batches passes, and `check` finds it. If
        the transaction has ended since the coordinator was asked, the epoch is checked first:
        markers of the second protocol have a new epoch, and INVALID_PRODUCER_EPOCH lets the
        producer abort and continue, while INVALID_TXN_STATE is fatal for the producer.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        producer_id = header.producer_id
        state = self._states.get(producer_id)
        if state is not None and state.epoch == header.producer_epoch:
            if state.txn_first_offset >= 0 or _repeated(header, state.batches) is not None:
                return
        elif state is not None and header.producer_epoch < state.epoch:
            raise _stale(header, state)
        if not self.is_verified(producer_id, header.producer_epoch, verification):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )
        assert verification is not None
        if header.base_sequence > verification.lowest_sequence:
            raise _out_of_order(
                header, f"is behind {verification.lowest_sequence}, which was not appended yet"
            )
        if from_zero and header.base_sequence and producer_id not in self._states:
            raise _out_of_order(header, "begins at a producer that is not known")

    def check_epoch(self, header: BatchHeader) -> None:
        """Check a coordinator's batch, which has a producer but no sequence (offsets committed in a
        transaction).

        Raises KafkaError(INVALID_PRODUCER_EPOCH).
        """
        state = self._states.get(header.producer_id)
        if state is not None and header.producer_epoch < state.epoch:
            raise _stale(header, state)

    def check_marker(self, header: BatchHeader, marker: Record) -> None:
        """Check a marker from a transaction coordinator.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, INVALID_RECORD.
        """
        state = self._states.get(header.producer_id)
        if state is not None and control_type(marker) in (ControlType.ABORT, ControlType.COMMIT):
            if header.producer_epoch < state.epoch:
                raise _stale(header, state)
            if coordinator_epoch(marker) < state.coordinator_epoch:
                raise KafkaError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    (
                        f"coordinator epoch {coordinator_epoch(marker)} is older than "
                        f"{state.coordinator_epoch}"
                    ),
                )

    def recall(self, producer_id: int, earlier: Iterable[BatchHeader]) -> None:
        """Add batches that a snapshot left out: of the batches in `earlier`, which are in order,
        those that this producer sent in this epoch before the known ones."""
        state = self._states[producer_id]
        state.abridged = False
        if not state.batches:
            return
        first = state.batches[0].first_offset
        found = [
            SentBatch(h.last_sequence, h.last_offset, h.last_offset_delta, h.max_timestamp)
            for h in earlier
            if h.producer_id == producer_id
            and h.producer_epoch == state.epoch
            and h.base_sequence >= 0
            and h.base_offset < first
        ]
        state.batches[:0] = found[-BATCHES_KEPT:]
        del state.batches[:-BATCHES_KEPT]

    # --- applying appended batches ---

    def update(self, header: BatchHeader, base_offset: int, timestamp: int, now_ms: int) -> None:
        """Apply a batch of data with a producer id, appended at `base_offset`."""
        producer_id, epoch, delta = (
            header.producer_id,
            header.producer_epoch,
            header.last_offset_delta,
        )
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id, epoch)
        elif self._frozen:
            self._keep(state)
        if state.epoch != epoch:
            state.epoch = epoch
            state.abridged = False
            state.batches.clear()
        batches = state.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        first = header.base_sequence
        last_sequence = (first + delta) % SEQUENCES if first >= 0 else NO_SEQUENCE
        batches.append(SentBatch(last_sequence, base_offset + delta, delta, timestamp))
        state.timestamp = timestamp
        state.seen_ms = now_ms
        if header.attributes & TRANSACTIONAL_BIT and state.txn_first_offset < 0:
            state.txn_first_offset = base_offset
            self._open[base_offset] = producer_id
            self._verifications.pop(producer_id, None)

    def update_marker(
        self, header: BatchHeader, marker: Record, offset: int, now_ms: int
    ) -> AbortedTxn | None:
        """Apply the marker appended at `offset`. If it aborts a transaction, returns the entry for
        the index of aborted transactions."""
        kind = control_type(marker)
        if kind not in (ControlType.ABORT, ControlType.COMMIT) or header.producer_id < 0:
            return None
        state = self._states.get(header.producer_id)
        if state is None:
            state = self._states[header.producer_id] = ProducerState(header.producer_id)
        elif self._frozen:
            self._keep(state)
        if state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.abridged = False
            state.batches.clear()
        self._end_verification(header.producer_id, header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch(marker)
        state.timestamp = header.max_timestamp
        state.seen_ms = now_ms
        first = state.txn_first_offset
        if first < 0:
            return None
        state.txn_first_offset = NO_OFFSET
        self._open.pop(first, None)
        self._ended.append((first, offset))
        if kind is ControlType.COMMIT:
            return None
        stable = min(self._open, default=offset + 1)
        return AbortedTxn(header.producer_id, first, offset, stable)

    def _end_verification(self, producer_id: int, marker_epoch: int) -> None:
        """End a verification that may be for the transaction of this marker."""
        known = self._verifications.get(producer_id)
        if known is not None and not (known.second_protocol and marker_epoch <= known.epoch):
            del self._verifications[producer_id]

    # --- queries ---

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the oldest transaction that is open, or whose marker is not
        below the high watermark."""
        if not self._open and not self._ended:
            return None
        if self._ended:
            self._ended = [ended for ended in self._ended if ended[1] >= high_watermark]
        first = next(iter(self._open), None)
        for ended_first, _ in self._ended:
            if first is None or ended_first < first:
                first = ended_first
        return first

    def expire(self, now_ms: int, after_ms: int) -> int:
        """Drop the producers that were idle for `after_ms` and have no open transaction. Returns
        how many."""
        count = 0
        for producer_id in list(self._states):
            state = self._states.get(producer_id)
            if (
                state is not None
                and state.txn_first_offset < 0
                and now_ms - state.seen_ms >= after_ms
            ):
                del self._states[producer_id]
                count += 1
        for producer_id in list(self._verifications):
            verification = self._verifications.get(producer_id)
            if verification is not None and now_ms - verification.seen_ms >= after_ms:
                del self._verifications[producer_id]
        return count

    def forget_before(self, log_start_offset: int) -> None:
        """Drop ended transactions before the log start."""
        self._ended = [ended for ended in self._ended if ended[1] >= log_start_offset]

    # --- snapshots ---

    def snapshot(self) -> bytes:
        """Format the state as the content of a snapshot file."""
        return FrozenProducers(self._states).snapshot()

    def freeze(self) -> FrozenProducers:
        """Freeze the current state, so that a thread can write a snapshot of it. Call `release` on
        the result afterwards."""
        frozen = FrozenProducers(self._states)
        self._frozen.append(frozen)
        return frozen

    def _keep(self, state: ProducerState) -> None:
        """Make the frozen states keep a producer that is about to change."""
        self._frozen = [frozen for frozen in self._frozen if not frozen.is_over]
        for frozen in self._frozen:
            frozen.keep(state)

    def forget_below(self, producer_id: int) -> None:
        """Drop the producers with lower ids than `producer_id`, none of which may have an open
        transaction."""
        self._states = {at: state for at, state in self._states.items() if at >= producer_id}

    @classmethod
    def from_snapshot(cls, content: bytes, offset: int, now_ms: int) -> "Producers":
        """Read the state before `offset` from the content of a snapshot file. Raises
        CorruptSnapshot."""
        try:
            version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
        except StructError:
            raise CorruptSnapshot("cut off") from None
        if version != SNAPSHOT_VERSION:
            raise CorruptSnapshot(f"version {version}")
        if len(content) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
            raise CorruptSnapshot(f"{count} producers in {len(content)} bytes")
        if crc32c(content[_CRC_FROM:]) != crc:
            raise CorruptSnapshot("wrong CRC")
        self = cls(offset)
        open_transactions: list[tuple[int, int]] = []
        for entry in _SNAPSHOT_ENTRY.iter_unpack(content[_SNAPSHOT_HEAD.size :]):
            producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator, txn_first = (
                entry
            )
            state = self._states[producer_id] = ProducerState(producer_id, epoch)
            if last_offset >= 0:
                state.batches.append(SentBatch(sequence, last_offset, delta, timestamp))
                state.abridged = sequence >= 0
            state.coordinator_epoch = coordinator
            state.txn_first_offset = txn_first
            state.timestamp = timestamp
            state.seen_ms = now_ms
            if txn_first >= 0:
                open_transactions.append((txn_first, producer_id))
        self._open = dict(sorted(open_transactions))
        return self

    def replay(
        self, batches: Iterable[tuple[BatchHeader, Record | None]], now_ms: int
    ) -> Iterator[AbortedTxn]:
        """Apply batches from the log, each with the record of a control batch. Yields the
        transactions that they abort."""
        for header, marker in batches:
            if header.attributes & CONTROL_BIT:
                if marker is not None:
                    aborted = self.update_marker(header, marker, header.last_offset, now_ms)
                    if aborted is not None:
                        yield aborted
            elif header.producer_id >= 0:
                self.update(header, header.base_offset, header.max_timestamp, now_ms)
            self.next_offset = header.next_offset


def _repeated(header: BatchHeader, batches: list[SentBatch]) -> SentBatch | None:
    last_sequence = header.last_sequence
    for batch in batches:
        if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
            return batch
    return None


def _stale(header: BatchHeader, state: ProducerState) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        (
            f"producer {header.producer_id} is at epoch {state.epoch}, the batch has "
            f"{header.producer_epoch}"
        ),
    )


def _out_of_order(header: BatchHeader, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        (
            f"producer {header.producer_id} epoch {header.producer_epoch}: sequence "
            f"{header.base_sequence} {why}"
        ),
    )
