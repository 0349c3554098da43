"""The share partition: the state that a partition's leader keeps for one share group.

A share group is delivered individual records, and has no position. The *window* goes from the start
offset to the end offset. All records before it are done, and no record after it has been delivered.
Inside, each record is available, acquired by a member under a lock that expires, or done
(acknowledged or archived):

    available ──acquire──▶ acquired ──accept──▶ acknowledged
        ▲                     │ ├─────reject, gap──▶ archived
        └──release, time-out──┘ └─release after the last delivery──▶ archived

When the first records of the window are done, the start offset moves past them. A record that a
member keeps therefore stops the window, and the size of the window limits how many records are in
flight.

Consecutive records with the same state are one *run*; runs cover the window without gaps. Offsets
that the log does not have (compaction, control batches, retention) are acquired with their
neighbors, and the client acknowledges them as gaps, or they are archived once a fetch shows that
they are missing. An acknowledgement takes effect when the share coordinator has stored it. Until
then the records stay acquired, and they cannot be acquired or acknowledged again: the caller stores
the `StateWrite`s, one at a time, merges those that must wait (`merge`), and reports each result
with `written`. The acquired state is not stored: to a new leader, the record is available, with the
delivery count that was last stored.

A record that makes its consumers fail would use up the deliveries of all records that are delivered
with it. Therefore, from half of the delivery limit on, fewer and fewer records are acquired
together, and before its last delivery each record is acquired by itself.

This class does no I/O and reads no clock. Its caller fetches the records and reports which offsets
it found.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import Struct

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.share.batches import RecordState, StateBatch, combine

ISOLATION_SINCE: Final = 2
"""The lowest delivery count at which records may be isolated. A delivery limit of 2 leaves none for
isolation."""

STALE_LOCKS_MAX: Final = 64
"""The number of stale lock entries, beyond one for each run, above which the heap is rebuilt."""


class AcknowledgeType(IntEnum):
    """A consumer's acknowledgement of a record, numbered as in the protocol."""

    GAP = 0
    """The log has no such record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member is still processing the record: its lock is renewed."""


class AcquireMode(IntEnum):
    """How a fetch applies its limit of records, numbered as in the protocol (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    """Acquire whole batches of the log. The rest of a batch may exceed the limit."""
    RECORD_LIMIT = 1
    """Never exceed the limit."""


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of the records from `first_offset` to `last_offset`, inclusive."""

    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One type for all records, or one for each."""


class Acquired(NamedTuple):
    """Records that a fetch has acquired for a member."""

    first_offset: int
    last_offset: int
    delivery_count: int


class OffsetRange(NamedTuple):
    """An inclusive range of offsets, such as a batch of the log."""

    first_offset: int
    last_offset: int


class ShareFetchParams(NamedTuple):
    """The parameters of a ShareFetch that apply to all of its partitions."""

    member_id: str
    mode: AcquireMode
    batch_size: int
    """The approximate number of records in one entry of the response. Entries consist of whole
    batches."""


class FetchedBatches(NamedTuple):
    """The sorted batches that a ShareFetch read from the log of one partition."""

    fetch_offset: int
    batches: Sequence[OffsetRange]
    aborted: Sequence[OffsetRange] = ()
    """Batches of aborted transactions, which a read_committed group must not get."""


class StateWrite(NamedTuple):
    """State for the share coordinator to store (WriteShareGroupState)."""

    write_id: int
    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class SharePartitionSettings(Struct, frozen=True):
    """The configs of a share partition. The defaults are Kafka's. A group may override them."""

    delivery_count_limit: int = 5
    """`group.share.delivery.count.limit`."""
    record_locks_max: int = 2000
    """`group.share.partition.max.record.locks`: the maximum size of the window."""
    lock_duration_ms: int = 30_000
    """`group.share.record.lock.duration.ms`."""
    renewal: bool = True
    """Whether members of the group may renew locks."""


class _Run(Struct):
    """Consecutive records with the same state."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = ""
    lock_until_ms: int = 0
    write_id: int = 0
    """The pending write that changes the state, or 0."""
    next_state: RecordState = RecordState.AVAILABLE
    """The state once that write is stored."""

    def is_like(self, other: _Run) -> bool:
        """Whether the two runs can be merged."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.lock_until_ms == other.lock_until_ms
            and self.write_id == other.write_id
            and self.next_state is other.next_state
        )

    @property
    def is_locked(self) -> bool:
        """Whether a member holds the records, and no write is pending for them."""
        return self.state is RecordState.ACQUIRED and not self.write_id


_FIRST = attrgetter("first")


class SharePartitionState:
    """The window of one group on one partition. `settings` may be changed at any time."""

    def __init__(
        self,
        settings: SharePartitionSettings,
        state_epoch: int,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
    ) -> None:
        """Load the state that the share coordinator has stored. `start_offset` must be an actual
        offset: if the group has none yet (-1), the caller chooses it by `share.auto.offset.reset`.

        Raises ProtocolError for states that are never stored.
        """
        self.settings = settings
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self._runs: list[_Run] = []
        self._complete = 0
        """The number of finished records in the window."""
        self._completing = 0
        """The number of records in the window that will be finished once the pending writes are
        stored."""
        self._locks: list[tuple[int, int, int]] = []
        """A heap of (expiry in ms, first, last). Entries for renewed or ended locks are stale."""
        self._writes: dict[int, list[OffsetRange]] = {}
        self._write_ids = 0
        for batch in combine(batches, (), start_offset):
            self._load(batch)
        self._advance()

    def _load(self, batch: StateBatch) -> None:
        if batch.delivery_state not in (0, 2, 4):
            raise ProtocolError(f"a stored delivery state {batch.delivery_state}, which is unknown")
        state = RecordState(batch.delivery_state)
        if batch.first_offset > self.next_offset:
            # No state is stored for these records. They may have been delivered, but count as never
            # delivered.
            between = _Run(self.next_offset, batch.first_offset - 1, RecordState.AVAILABLE, 0)
            self._runs.append(between)
        self._runs.append(_Run(batch.first_offset, batch.last_offset, state, batch.delivery_count))
        if state.is_terminal:
            self._complete += batch.last_offset - batch.first_offset + 1

    # --- fetching ---

    @property
    def next_offset(self) -> int:
        """The first offset after the window."""
        return self._runs[-1].last + 1 if self._runs else self.start_offset

    @property
    def next_fetch_offset(self) -> int:
        """The offset at which a fetch must begin: the first available record, or the end of the
        window."""
        for run in self._runs:
            if run.state is RecordState.AVAILABLE:
                return run.first
        return self.next_offset

    @property
    def can_acquire(self) -> bool:
        """Whether a fetch could acquire records: the window contains an available record, or may
        grow."""
        return self.next_fetch_offset < self.next_offset or self._free > 0

    @property
    def _free(self) -> int:
        return self.settings.record_locks_max - (self.next_offset - self.start_offset)

    @property
    def delivery_complete_count(self) -> int:
        """The number of finished records from the start offset on."""
        return self._complete

    def states(self) -> list[StateBatch]:
        """The states in the window, for display and tests. Unlike in a write, acquired records are
        shown as acquired."""
        return [StateBatch(r.first, r.last, r.state, r.delivery_count) for r in self._runs]

    # --- acquire ---

    def acquire(
        self,
        params: ShareFetchParams,
        fetched: FetchedBatches,
        max_records: int,
        now_ms: int,
    ) -> list[Acquired]:
        """Acquire for a member about `max_records` of the available records in the batches that its
        fetch read."""
        fetch_offset, batches, aborted = fetched
        if max_records <= 0 or not batches:
            return []
        last = batches[-1].last_offset
        limit = min(max_records, self._free)
        if limit <= 0:  # The window is full, but its available records may be delivered again.
            last = min(last, self.next_offset - 1)
            limit = min(max_records, self.next_offset - fetch_offset)
        if limit <= 0 or last < self.start_offset:
            return []
        base = batches[0].first_offset
        if base > fetch_offset:
            self._archive(OffsetRange(fetch_offset, base - 1), RecordState.AVAILABLE)
        self._archive_undeliverable()
        first = max(base, self.start_offset)
        taken, more = self._acquire_again(params, limit, first, last, batches, now_ms)
        limit -= sum(one.last_offset - one.first_offset + 1 for one in taken)
        if more and limit > 0 and last >= self.next_offset:
            first = max(first, self.next_offset)
            through = _limited(params.mode, first, last, limit, batches)
            self._grow(first, through, params.member_id, now_ms)
            taken += _chunks(params, first, through, batches)
        if taken:
            taken = self._without(aborted, taken)
        self._advance()
        return taken

    def _acquire_again(
        self,
        params: ShareFetchParams,
        limit: int,
        first: int,
        last: int,
        batches: Sequence[OffsetRange],
        now_ms: int,
    ) -> tuple[list[Acquired], bool]:
        """Acquire available records of the window. Returns them, and whether records after the
        window may be acquired along with them."""
        taken: list[Acquired] = []
        found = [
            (max(run.first, first), min(run.last, last), run.delivery_count)
            for run in self._between(first, last)
            if run.state is RecordState.AVAILABLE
        ]
        until_ms = now_ms + self.settings.lock_duration_ms
        for begin, end, count in found:
            if limit <= 0:
                break
            alone = self._isolated(end - begin + 1, count)
            if alone and taken:
                return taken, False
            end = _limited(params.mode, begin, end, limit, batches)
            if alone:
                end = min(end, begin + alone - 1)
            for run in self._cut(begin, end):
                run.state = RecordState.ACQUIRED
                run.delivery_count += 1
                run.member_id = params.member_id
                run.lock_until_ms = until_ms
            self._lock(until_ms, begin, end)
            taken.append(Acquired(begin, end, count + 1))
            limit -= end - begin + 1
            if alone:
                return taken, False
        return taken, True

    def _isolated(self, size: int, delivery_count: int) -> int:
        """Return how many of `size` records may be acquired together, or 0 for all of them. The
        limit applies to records that were delivered often."""
        most = self.settings.delivery_count_limit
        since = max(ISOLATION_SINCE, -(-most // 2))
        if most > ISOLATION_SINCE and delivery_count >= most - 1:
            return 1
        if delivery_count < since:
            return 0
        return max(1, size >> (delivery_count - since + 1))

    def _grow(self, first: int, last: int, member_id: str, now_ms: int) -> None:
        """Extend the window to `last`, and acquire the records from `first` on."""
        if not self._runs:
            self.start_offset = first
        elif first > self.next_offset:
            missing = _Run(self.next_offset, first - 1, RecordState.ARCHIVED, 0)
            self._runs.append(missing)
            self._complete += missing.last - missing.first + 1
        until_ms = now_ms + self.settings.lock_duration_ms
        self._runs.append(_Run(first, last, RecordState.ACQUIRED, 1, member_id, until_ms))
        self._lock(until_ms, first, last)

    def _without(self, aborted: Iterable[OffsetRange], taken: list[Acquired]) -> list[Acquired]:
        """Return `taken` without the records of `aborted` batches, and archive those records."""
        for gone in aborted:
            kept: list[Acquired] = []
            for one in taken:
                low = max(one.first_offset, gone.first_offset)
                high = min(one.last_offset, gone.last_offset)
                if low > high:
                    kept.append(one)
                    continue
                self._archive(OffsetRange(low, high), RecordState.ACQUIRED)
                if one.first_offset < low:
                    kept.append(one._replace(last_offset=low - 1))
                if high < one.last_offset:
                    kept.append(one._replace(first_offset=high + 1))
            taken = kept
        return taken

    def _archive(self, offsets: OffsetRange, only: RecordState) -> None:
        """Archive the records of `offsets` that are in state `only`, so that they are not
        delivered. This is not stored, because a new leader finds the same in the log."""
        for run in self._cut(*offsets):
            if run.state is only and not run.write_id:
                self._settle(run, RecordState.ARCHIVED)
        self._merge(*offsets)

    def _archive_undeliverable(self) -> None:
        """Archive available records that were delivered too often: the delivery limit was
        lowered."""
        limit = self.settings.delivery_count_limit
        for run in self._runs:
            if run.state is RecordState.AVAILABLE and run.delivery_count >= limit:
                self._settle(run, RecordState.ARCHIVED)

    # --- acknowledge ---

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement], now_ms: int
    ) -> StateWrite | None:
        """Apply a member's acknowledgements of records that it holds, all or none. Acknowledgements
        of records before the window are ignored: those records are done. Returns the write to
        store, or None if locks are only renewed.

        Raises INVALID_REQUEST, and INVALID_RECORD_STATE if the member does not hold (or no longer
        holds) a record.
        """
        said = self._checked(member_id, acknowledgements)
        write_id = self._write_ids + 1
        until_ms = now_ms + self.settings.lock_duration_ms
        changed: list[OffsetRange] = []
        for first, last, kind in said:
            for run in self._cut(first, last):
                if kind is AcknowledgeType.RENEW:
                    run.lock_until_ms = until_ms
                else:
                    self._begin(run, write_id, self._state_after(kind, run))
            if kind is AcknowledgeType.RENEW:
                self._lock(until_ms, first, last)
            else:
                changed.append(OffsetRange(first, last))
        for first, last, _ in said:
            self._merge(first, last)
        return self._write(write_id, changed) if changed else None

    def release(self, member_id: str) -> StateWrite | None:
        """Release all records that a member holds, because it left or its share session ended.
        Returns the write to store, or None if it holds none."""
        write_id = self._write_ids + 1
        changed: list[OffsetRange] = []
        for run in self._runs:
            if run.is_locked and run.member_id == member_id:
                self._begin(run, write_id, self._state_after(AcknowledgeType.RELEASE, run))
                changed.append(OffsetRange(run.first, run.last))
        return self._write(write_id, changed) if changed else None

    def _checked(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[tuple[int, int, AcknowledgeType]]:
        """Check the acknowledgements, and return (first, last, type) of those inside the window.
        Raises the errors of `acknowledge`; changes nothing."""
        said: list[tuple[int, int, AcknowledgeType]] = []
        previous = -1
        for one in acknowledgements:
            _check_shape(one, previous)
            previous = one.last_offset
            if one.last_offset < self.start_offset:
                continue
            if not self._runs:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "Batch record not found. The request batch offsets are not found in the cache.",
                )
            if one.last_offset >= self.next_offset:
                end = "first" if one.first_offset >= self.next_offset else "last"
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    (
                        f"Batch record not found. The {end} offset in request is past acquired "
                        "records."
                    ),
                )
            said += (
                (max(first, self.start_offset), last, kind)
                for first, last, kind in _by_type(one)
                if last >= self.start_offset
            )
        for first, last, kind in said:
            self._check_held(member_id, first, last)
            if kind is AcknowledgeType.RENEW and not self.settings.renewal:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "Renewing acquisition locks is not enabled for the group.",
                )
        return said

    def _check_held(self, member_id: str, first: int, last: int) -> None:
        for run in self._between(first, last):
            if run.state is not RecordState.ACQUIRED:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "The batch cannot be acknowledged. The batch is not in the acquired state.",
                )
            if run.write_id:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    (
                        "The record state is invalid. The acknowledgement of delivery could not be "
                        "completed."
                    ),
                )
            if run.member_id != member_id:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"
                )

    def _state_after(self, kind: AcknowledgeType, run: _Run) -> RecordState:
        if kind is AcknowledgeType.ACCEPT:
            return RecordState.ACKNOWLEDGED
        may_be_delivered = run.delivery_count < self.settings.delivery_count_limit
        if kind is AcknowledgeType.RELEASE and may_be_delivered:
            return RecordState.AVAILABLE
        return RecordState.ARCHIVED

    def _begin(self, run: _Run, write_id: int, state: RecordState) -> None:
        """Mark `run` as changing to `state` when the write is stored."""
        run.write_id, run.next_state = write_id, state
        if state.is_terminal:
            self._completing += run.last - run.first + 1

    def _write(self, write_id: int, changed: list[OffsetRange]) -> StateWrite:
        self._writes[write_id] = changed
        batches = (
            StateBatch(run.first, run.last, run.next_state, run.delivery_count)
            for first, last in changed
            for run in self._between(first, last)
        )
        return self._state_write(write_id, batches)

    def _state_write(self, write_id: int, batches: Iterable[StateBatch]) -> StateWrite:
        self._write_ids = write_id
        return StateWrite(
            write_id,
            self.state_epoch,
            self.start_offset,
            self._complete + self._completing,
            tuple(combine(batches, (), self.start_offset)),
        )

    def merge(self, writes: Sequence[StateWrite]) -> StateWrite:
        """Merge `writes` into one. It takes the start offset and the count from the current window,
        so that the stored state never goes back if writes are stored one after another. None of
        `writes` may be in progress."""
        batches = [batch for write in writes for batch in write.batches]
        return self._state_write(self._write_ids, batches)

    def written(self, write_id: int, *, stored: bool) -> None:
        """Apply the result of a `StateWrite`. If it was not stored, the records are unchanged: the
        member still holds them, and may acknowledge them again until the lock expires."""
        for first, last in self._writes.pop(write_id, ()):
            first = max(first, self.start_offset)
            for run in self._between(first, last):
                if run.write_id != write_id:
                    continue
                if run.next_state.is_terminal:
                    self._completing -= run.last - run.first + 1
                state, run.next_state, run.write_id = run.next_state, RecordState.AVAILABLE, 0
                if stored:
                    self._settle(run, state)
                else:
                    self._lock(run.lock_until_ms, run.first, run.last)
            self._merge(first, last)
        self._advance()

    # --- time ---

    @property
    def next_expiry_ms(self) -> int | None:
        """The time at which the next lock expires, or None if no record is locked."""
        while self._locks:
            until_ms, first, last = self._locks[0]
            if any(self._expiring(until_ms, first, last)):
                return until_ms
            heapq.heappop(self._locks)
        return None

    def expire(self, now_ms: int) -> StateWrite | None:
        """Release the records whose locks have expired by `now_ms`. They are available at once,
        whether or not the returned write succeeds. If it is not stored, a new leader counts one
        delivery less."""
        batches: list[StateBatch] = []
        while self._locks and self._locks[0][0] <= now_ms:
            until_ms, first, last = heapq.heappop(self._locks)
            for run in self._expiring(until_ms, first, last):
                self._settle(run, self._state_after(AcknowledgeType.RELEASE, run))
                batches.append(StateBatch(run.first, run.last, run.state, run.delivery_count))
            self._merge(first, last)
        write = self._state_write(self._write_ids + 1, batches) if batches else None
        self._advance()
        return write

    def _expiring(self, until_ms: int, first: int, last: int) -> list[_Run]:
        return [
            run
            for run in self._between(max(first, self.start_offset), last)
            if run.is_locked and run.lock_until_ms == until_ms
        ]

    def _lock(self, until_ms: int, first: int, last: int) -> None:
        heapq.heappush(self._locks, (until_ms, first, last))
        if len(self._locks) > 2 * len(self._runs) + STALE_LOCKS_MAX:
            self._locks = [(r.lock_until_ms, r.first, r.last) for r in self._runs if r.is_locked]
            heapq.heapify(self._locks)

    # --- the log ---

    def log_start_moved(self, log_start_offset: int) -> None:
        """Move the window's start to `log_start_offset` or later: retention or DeleteRecords has
        removed the records before that offset."""
        if log_start_offset <= self.start_offset:
            return
        if self._runs:
            self._cut(self.start_offset, log_start_offset - 1)
            gone = bisect_right(self._runs, log_start_offset - 1, key=_FIRST)
            for run in self._runs[:gone]:
                self._forget(run)
            del self._runs[:gone]
        self.start_offset = log_start_offset
        self._advance()

    # --- runs ---

    def _between(self, first: int, last: int) -> list[_Run]:
        """Return the runs that contain an offset from `first` to `last`."""
        begin = max(0, bisect_right(self._runs, first, key=_FIRST) - 1)
        end = bisect_right(self._runs, last, key=_FIRST)
        return [run for run in self._runs[begin:end] if run.last >= first]

    def _cut(self, first: int, last: int) -> list[_Run]:
        """Split runs at `first` and after `last`. Returns those in between."""
        self._cut_before(first)
        self._cut_before(last + 1)
        return self._between(first, last)

    def _cut_before(self, offset: int) -> None:
        index = bisect_right(self._runs, offset, key=_FIRST) - 1
        if index < 0:
            return
        run = self._runs[index]
        if run.first < offset <= run.last:
            behind = _Run(
                offset,
                run.last,
                run.state,
                run.delivery_count,
                run.member_id,
                run.lock_until_ms,
                run.write_id,
                run.next_state,
            )
            run.last = offset - 1
            self._runs.insert(index + 1, behind)

    def _merge(self, first: int, last: int) -> None:
        """Merge adjacent runs with the same state around `first` to `last`."""
        begin = max(0, bisect_right(self._runs, first, key=_FIRST) - 2)
        end = bisect_right(self._runs, last, key=_FIRST) + 1
        merged: list[_Run] = []
        for run in self._runs[begin:end]:
            if merged and merged[-1].is_like(run):
                merged[-1].last = run.last
            else:
                merged.append(run)
        self._runs[begin:end] = merged

    def _settle(self, run: _Run, state: RecordState) -> None:
        """Set the state of `run` and clear its lock."""
        run.state, run.member_id, run.lock_until_ms = state, "", 0
        if state.is_terminal:
            self._complete += run.last - run.first + 1

    def _forget(self, run: _Run) -> None:
        """Update the counts for a run that leaves the window."""
        size = run.last - run.first + 1
        if run.state.is_terminal:
            self._complete -= size
        elif run.write_id and run.next_state.is_terminal:
            self._completing -= size

    def _advance(self) -> None:
        """Move the start offset past records that are done."""
        done = 0
        for run in self._runs:
            if not run.state.is_terminal:
                break
            self._forget(run)
            self.start_offset = run.last + 1
            done += 1
        del self._runs[:done]


def _check_shape(one: Acknowledgement, previous: int) -> None:
    """Check the form of an acknowledgement, which must begin after `previous`, the last offset of
    the one before. Raises INVALID_REQUEST."""
    size = one.last_offset - one.first_offset + 1
    if one.first_offset <= previous or size < 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Acknowledgement batches must be sorted and not overlap."
        )
    if len(one.types) not in (1, size):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Acknowledgement types must be one for the batch, or one for each of its records.",
        )
    for kind in set(one.types):
        if not 0 <= kind <= AcknowledgeType.RENEW:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {kind}")


def _by_type(one: Acknowledgement) -> Iterable[tuple[int, int, AcknowledgeType]]:
    """Return (first, last, type) of each range of records with the same type."""
    if len(one.types) == 1:
        return [(one.first_offset, one.last_offset, AcknowledgeType(one.types[0]))]
    stretches: list[tuple[int, int, AcknowledgeType]] = []
    for offset, kind in enumerate(one.types, one.first_offset):
        if stretches and stretches[-1][2] == kind:
            stretches[-1] = (stretches[-1][0], offset, stretches[-1][2])
        else:
            stretches.append((offset, offset, AcknowledgeType(kind)))
    return stretches


def _limited(
    mode: AcquireMode, first: int, last: int, limit: int, batches: Sequence[OffsetRange]
) -> int:
    """Return the last offset of `limit` records from `first` on, extended to the end of its batch
    if whole batches are acquired, and at most `last`."""
    through = first + limit - 1
    if through >= last:
        return last
    if mode is AcquireMode.BATCH_OPTIMIZED:
        index = bisect_right(batches, through, key=lambda batch: batch.first_offset) - 1
        if index >= 0:
            through = max(through, batches[index].last_offset)
    return min(through, last)


def _chunks(
    params: ShareFetchParams, first: int, last: int, batches: Sequence[OffsetRange]
) -> list[Acquired]:
    """Split newly acquired records into entries of about `params.batch_size` records, each of whole
    batches."""
    chunks: list[Acquired] = []
    batch_size = params.batch_size
    if params.mode is AcquireMode.BATCH_OPTIMIZED and last - first + 1 > batch_size:
        for batch in batches:
            if batch.first_offset > last:
                break
            if batch.first_offset > first and batch.first_offset - first >= batch_size:
                chunks.append(Acquired(first, batch.first_offset - 1, 1))
                first = batch.first_offset
    chunks.append(Acquired(first, last, 1))
    return chunks
