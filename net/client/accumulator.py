"""Records waiting to be sent, in batches by partition, within a memory limit.

A batch takes records until it is full or is taken for sending. A partition's queue holds its
batches in the order of their records. A batch to be retried goes back to its place, which an
idempotent producer finds by its sequence.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import trio

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    HEADER_BYTES,
    SEQUENCES,
    TRANSACTIONAL_BIT,
    records,
    write_crc,
)
from pk.core.record.build import BATCH_BYTES_MAX, BatchBuilder, Headers
from pk.core.record.compress import Codec
from pk.core.record.varint import VARINTS
from pk.core.values import TopicPartition

Pair = tuple[bytes | None, bytes | None]
"""(key, value) of a record."""

Row = tuple[bytes | None, bytes | None, Headers, int | None, int | None]
"""(key, value, headers, time in ms or None for now, partition or None to use the partitioner) of a
record."""

RECORD_OVERHEAD: Final = 21 + HEADER_BYTES
"""An upper bound for the space a lone record takes in a batch in addition to key, value and
headers."""


_ATTRIBUTES_LOW: Final = 22
"""The low byte of a batch's attributes."""


class Batch(BatchBuilder):
    """Records of one partition that are sent together, from the first `append` to the broker's
    response."""

    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "built",
        "created",
        "error",
        "force",
        "in_doubt",
        "log_append_time_ms",
        "not_before",
        "partition",
        "producer_epoch",
        "producer_id",
        "refusal",
        "serial",
        "settled",
        "splits",
        "transactional",
        "watchers",
    )

    def __init__(
        self,
        partition: TopicPartition,
        now: float,
        serial: int,
        codec: Codec,
        level: int | None,
        bytes_max: int,
    ) -> None:
        super().__init__(codec, level, bytes_max)
        self.partition = partition
        self.created = now
        self.serial = serial
        """Batches created before a flush have a lower serial."""

        self.force = False
        """Whether to send the batch without lingering."""

        self.built: bytearray | None = None
        """The batch as sent; None while records may be added."""

        self.base_sequence = -1
        self.producer_id = -1
        self.producer_epoch = -1
        self.transactional = False
        self.attempts = 0
        self.in_doubt = False
        """Whether an earlier attempt may have written it to the log without being acknowledged."""

        self.not_before = 0.0
        self.refusal: KafkaError | None = None
        """The broker's error for the last attempt; None before, or if that attempt got no
        response."""

        self.settled = trio.Event()
        """Set when `base_offset` or `error` is final, or the batch has been split."""

        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: Exception | None = None
        self.splits: list[tuple[int, Batch]] = []
        """(index of its first record, batch) for each of the batches this one was split into."""

        self.watchers: list[tuple[int, Callable[[Batch, int], None]]] | None = None
        """(index of a record, what to call when it is settled)."""

    def watch(self, index: int, settled: Callable[["Batch", int], None]) -> None:
        """Call `settled` with the batch that then has record `index`, and its index there, when the
        record is settled."""
        if self.watchers is None:
            self.watchers = []
        self.watchers.append((index, settled))

    def forget_records(self) -> None:
        """Free the memory of the records once their outcome is known."""
        self.built = None
        self._body = bytearray()

    def extend_pairs(self, timestamp_ms: int, pairs: Sequence[Pair], start: int) -> int:
        """Append as many `pairs` as fit, from index `start` on, with one timestamp; returns the
        index of the first one left.

        This is the bulk path: a tight loop without an object per record. An empty batch takes at
        least one record.
        """
        body, varints, count = self._body, VARINTS, self.count
        if not count:
            self._base = self._latest = timestamp_ms
        head = b"\0" + varints[timestamp_ms - self._base]
        room = self._bytes_max - len(body)
        parts: list[bytes] = []
        add = parts.append
        join = b"".join
        index = start
        for index in range(start, len(pairs)):
            key, value = pairs[index]
            if key is None:
                if value is None:
                    record = join((head, varints[count], b"\x01\x01\0"))
                else:
                    record = join(
                        (head, varints[count], b"\x01", varints[len(value)], value, b"\0")
                    )
            elif value is None:
                record = join((head, varints[count], varints[len(key)], key, b"\x01\0"))
            else:
                record = join(
                    (
                        head,
                        varints[count],
                        varints[len(key)],
                        key,
                        varints[len(value)],
                        value,
                        b"\0",
                    )
                )
            size = varints[len(record)]
            room -= len(record) + len(size)
            if room < 0 and count:
                break
            add(size)
            add(record)
            count += 1
        else:
            index += 1
        body += join(parts)
        self.count = count
        self._latest = max(self._latest, timestamp_ms)
        return index

    def extend_rows(self, now_ms: int, rows: Sequence[Row], start: int) -> int:
        """Like `extend_pairs`, for records with headers and timestamps of their own; `now_ms` is
        for those without a timestamp."""
        append = self.append
        for index in range(start, len(rows)):
            key, value, headers, timestamp_ms, _ = rows[index]
            if not append(now_ms if timestamp_ms is None else timestamp_ms, key, value, headers):
                return index
        return len(rows)

    @property
    def size_bytes(self) -> int:
        """The current size in bytes: as sent, or as collected so far."""
        return len(self.built) if self.built is not None else self.size_estimate

    @property
    def is_full(self) -> bool:
        """Whether the batch has practically no room left."""
        return len(self._body) + RECORD_OVERHEAD - HEADER_BYTES > self._bytes_max

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record."""
        return (self.base_sequence + self.count - 1) % SEQUENCES

    def seal(self) -> None:
        """Accept no more records and encode the batch. Raises KafkaError(MESSAGE_TOO_LARGE)."""
        if self.built is None:
            self.built = self.build()

    def stamp(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        transactional: bool = False,
    ) -> None:
        """Write the producer's id, epoch and sequence into the sealed batch, and whether it belongs
        to a transaction."""
        assert self.built is not None
        self.transactional = transactional
        if transactional:
            self.built[_ATTRIBUTES_LOW] |= TRANSACTIONAL_BIT
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.built[43:51] = producer_id.to_bytes(8, "big", signed=True)
        self.built[51:53] = producer_epoch.to_bytes(2, "big", signed=True)
        self.built[53:57] = base_sequence.to_bytes(4, "big", signed=True)
        write_crc(self.built)

    def split(self) -> "list[Batch]":
        """Split into two batches with half the records each; if this batch has a sequence, theirs
        continue it."""
        assert self.built is not None and self.count > 1
        gathered = list(records(self.built))
        middle = len(gathered) // 2
        for first, part in ((0, gathered[:middle]), (middle, gathered[middle:])):
            half = Batch(
                self.partition, self.created, self.serial, self._codec, self._level, BATCH_BYTES_MAX
            )
            for record in part:
                half.append(record.timestamp, record.key, record.value, record.headers)
            half.force = True
            half.seal()
            if self.base_sequence >= 0:
                sequence = (self.base_sequence + first) % SEQUENCES
                half.stamp(
                    self.producer_id,
                    self.producer_epoch,
                    sequence,
                    transactional=self.transactional,
                )
            self.splits.append((first, half))
            for index, settled in self.watchers or ():
                if first <= index < first + half.count:
                    half.watch(index - first, settled)
        self.watchers = None
        return [half for _, half in self.splits]


class PartitionQueue:
    """The batches of one partition, and its state for the idempotent producer."""

    __slots__ = (
        "batches",
        "in_flight",
        "last_acked_sequence",
        "leader_id",
        "needs_epoch",
        "next_sequence",
        "partition",
        "producer_epoch",
        "unresolved",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.leader_id = -1
        """The broker whose sender has this queue; -1 for none."""

        self.producer_epoch = -1
        """The epoch used for this partition; -1 until the first batch is sent."""

        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.needs_epoch = False
        """Whether the broker's sequences and ours disagree: continue with a new epoch once nothing
        is in flight."""

        self.unresolved = False
        """Whether a batch was given up without knowing whether the broker appended it."""

    def put_back(self, batch: Batch) -> None:
        """Queue a batch again, before the batches with later records."""
        if batch.base_sequence < 0:
            self.batches.appendleft(batch)
            return
        place = 0
        for queued in self.batches:
            if queued.base_sequence < 0 or _follows(queued.base_sequence, batch.base_sequence):
                break
            place += 1
        self.batches.insert(place, batch)

    def forget_numbers(self) -> None:
        """The producer has a new id or epoch: start at sequence 0 when the next batch is sent."""
        self.producer_epoch = -1
        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.needs_epoch = self.unresolved = False

    def start_again(self, producer_epoch: int) -> None:
        """Continue at sequence 0 with a new epoch; queued batches get new sequences when they are
        sent."""
        self.producer_epoch = producer_epoch
        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.needs_epoch = self.unresolved = False
        for batch in self.batches:
            batch.base_sequence = -1

    def has_earlier(self, batch: Batch) -> bool:
        """Whether a batch before `batch` is not settled."""
        queued = any(
            b.base_sequence >= 0 and _follows(batch.base_sequence, b.base_sequence)
            for b in self.batches
        )
        return queued or self.earlier_in_flight(batch)

    def earlier_in_flight(self, batch: Batch) -> bool:
        """Whether a batch before `batch` is in flight."""
        return any(_follows(batch.base_sequence, b.base_sequence) for b in self.in_flight)


def _follows(later: int, earlier: int) -> bool:
    """Whether sequence `later` is after `earlier`; sequences wrap."""
    return 0 < (later - earlier) % SEQUENCES < SEQUENCES // 2


class Accumulator:
    """All unsettled batches, and the memory they take."""

    def __init__(
        self, *, batch_bytes: int, memory_bytes: int, codec: Codec, level: int | None
    ) -> None:
        self.batch_bytes = max(batch_bytes, HEADER_BYTES + 1)
        self.memory_bytes = memory_bytes
        self.codec = codec
        self.level = level
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.unsettled: dict[Batch, None] = {}
        self.used_bytes = 0
        self.records_failed = 0
        self.splits = 0
        self.serial = 0
        self.waiting = 0
        """The number of tasks that wait for memory."""

        self._freed = trio.Event()

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition, created if missing."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition)
        return queue

    def open_batch(self, queue: PartitionQueue) -> tuple[Batch, bool]:
        """The batch for the next record, and whether it is new."""
        if queue.batches:
            last = queue.batches[-1]
            if last.built is None and not last.is_full:
                return last, False
        now = trio.current_time()
        batch = Batch(queue.partition, now, self.serial, self.codec, self.level, self.batch_bytes)
        queue.batches.append(batch)
        self.unsettled[batch] = None
        self.used_bytes += batch.size_estimate
        return batch, True

    def append(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> tuple[Batch, int, bool]:
        """Add a record to a partition's last batch, or to a new one if it does not fit.

        Returns the batch, the bytes that were added, and whether the queue has something new to
        send: the batch is new or full."""
        before = self.used_bytes
        batch, new = self.open_batch(queue)
        added = batch.append(timestamp_ms, key, value, headers)
        if not added:
            size_before = batch.size_estimate
            batch.force = True
            batch.seal()
            self.sealed(size_before, batch)
            batch, new = self.open_batch(queue)
            added = batch.append(timestamp_ms, key, value, headers)
        self.used_bytes += added
        return batch, self.used_bytes - before, new or batch.is_full

    def extend(self, batch: Batch, timestamp_ms: int, pairs: Sequence[Pair], start: int) -> int:
        """Add as many `pairs` to `batch` as fit, from index `start` on; returns the index of the
        first one left."""
        size_before = batch.size_estimate
        index = batch.extend_pairs(timestamp_ms, pairs, start)
        self._extended(batch, size_before, all_in=index == len(pairs))
        return index

    def extend_rows(self, batch: Batch, now_ms: int, rows: Sequence[Row], start: int) -> int:
        """Like `extend`, for records with headers and timestamps of their own."""
        size_before = batch.size_estimate
        index = batch.extend_rows(now_ms, rows, start)
        self._extended(batch, size_before, all_in=index == len(rows))
        return index

    def _extended(self, batch: Batch, size_before: int, *, all_in: bool) -> None:
        """Count the growth of a batch, and seal it if it could not take all."""
        self.used_bytes += batch.size_estimate - size_before
        if not all_in:
            size_before = batch.size_bytes
            batch.seal()
            self.sealed(size_before, batch)

    def force_all(self) -> int:
        """Have everything sent without lingering; returns the serial of the batches concerned:
        theirs is at most this."""
        limit = self.serial
        self.serial += 1
        for batch in self.unsettled:
            batch.force = True
        return limit

    def has_room(self, size_bytes: int) -> bool:
        """Whether `size_bytes` fit; a single record always fits into an empty buffer."""
        return self.used_bytes + size_bytes <= self.memory_bytes or not self.unsettled

    async def wait_for_room(self, size_bytes: int) -> None:
        """Wait until `size_bytes` fit."""
        self.waiting += 1
        try:
            while not self.has_room(size_bytes):
                await self._freed.wait()
        finally:
            self.waiting -= 1

    def sealed(self, before: int, batch: Batch) -> None:
        """Account for the smaller size of a batch after compression; it had `before` bytes."""
        self.used_bytes += batch.size_bytes - before

    def split(self, queue: PartitionQueue, batch: Batch) -> None:
        """Replace a batch, which is in no queue, with two halves at its place."""
        halves = batch.split()
        self.splits += 1
        self.used_bytes += sum(half.size_bytes for half in halves)
        for half in reversed(halves):
            self.unsettled[half] = None
            queue.put_back(half)
        self.settle(batch, error=None)

    def settle(
        self,
        batch: Batch,
        *,
        error: Exception | None,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
    ) -> None:
        """Settle a batch: free its memory and wake waiting tasks."""
        if batch not in self.unsettled:
            return
        del self.unsettled[batch]
        self.used_bytes -= batch.size_bytes
        if error is not None:
            self.records_failed += batch.count
        batch.base_offset = base_offset
        batch.log_append_time_ms = log_append_time_ms
        batch.error = error
        batch.forget_records()
        batch.settled.set()
        if batch.watchers is not None:
            for index, settled in batch.watchers:
                settled(batch, index)
            batch.watchers = None
        if self.waiting:
            self._freed.set()
            self._freed = trio.Event()


def too_large(size_bytes: int, limit_bytes: int, key: str) -> KafkaError:
    """The error for a record too large to ever be sent."""
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size_bytes} bytes; {key} is {limit_bytes}"
    )
