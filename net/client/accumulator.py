"""Records waiting to be sent, in batches by partition, within a memory limit.

Records are added to a batch until it is full or a sender takes it. A partition's queue holds its
batches in the order of their records. A batch that is retried returns to its place in the queue,
which an idempotent producer finds by the batch's sequence number.
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
"""The most bytes that a single record takes in a batch in addition to its key, value and
headers."""


_ATTRIBUTES_LOW: Final = 22
"""The low byte of a batch's attributes."""


class Batch(BatchBuilder):
    """A batch of one partition's records, from the first `append` until it is settled."""

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
        """The number of flushes before the batch was created. The batches that a flush concerns
        have at most its number."""

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
        """Whether an earlier attempt may have appended the batch, although no acknowledgment
        arrived."""

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
        """(index of the first record, batch) for each of the batches that this one was split
        into."""

        self.watchers: list[tuple[int, Callable[[Batch, int], None]]] | None = None
        """(index of a record, the function to call when that record is settled)."""

    def watch(self, index: int, settled: Callable[["Batch", int], None]) -> None:
        """Call `settled` when record `index` is settled, with the batch that contains the record by
        then and the record's index in that batch."""
        if self.watchers is None:
            self.watchers = []
        self.watchers.append((index, settled))

    def forget_records(self) -> None:
        """Free the memory of the records, whose outcome is known."""
        self.built = None
        self._body = bytearray()

    def extend_pairs(self, timestamp_ms: int, pairs: Sequence[Pair], start: int) -> int:
        """Append as many `pairs` as fit, from index `start` on, with one timestamp. Returns the
        index of the first pair that did not fit.

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
        """Like `extend_pairs`, for records with headers and timestamps of their own. Records
        without a timestamp get `now_ms`."""
        append = self.append
        for index in range(start, len(rows)):
            key, value, headers, timestamp_ms, _ = rows[index]
            if not append(now_ms if timestamp_ms is None else timestamp_ms, key, value, headers):
                return index
        return len(rows)

    @property
    def size_bytes(self) -> int:
        """The size in bytes: encoded if the batch is sealed, otherwise estimated."""
        return len(self.built) if self.built is not None else self.size_estimate

    @property
    def is_full(self) -> bool:
        """Whether the batch may have no room for another record, even an empty one."""
        return len(self._body) + RECORD_OVERHEAD - HEADER_BYTES > self._bytes_max

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record."""
        return (self.base_sequence + self.count - 1) % SEQUENCES

    def seal(self) -> None:
        """Close the batch to new records and encode it. Raises KafkaError(MESSAGE_TOO_LARGE)."""
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
        """Write the producer's id, epoch and sequence, and the transactional bit, into the sealed
        batch."""
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
        """Split the batch into two with half of the records each. If the batch has a sequence, the
        halves continue it."""
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
        """The id of the broker whose sender sends this queue; -1 for none."""

        self.producer_epoch = -1
        """The epoch used for this partition; -1 until the first batch is sent."""

        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.needs_epoch = False
        """Whether the broker expects another sequence than the producer's: the partition then needs
        a new epoch once nothing is in flight."""

        self.unresolved = False
        """Whether a batch was given up without knowing whether the broker appended it."""

    def put_back(self, batch: Batch) -> None:
        """Return a batch to its place in the queue, before the batches with later records."""
        if batch.base_sequence < 0:
            self.batches.appendleft(batch)
            return
        place = 0
        for queued in self.batches:
            if queued.base_sequence < 0 or _follows(queued.base_sequence, batch.base_sequence):
                break
            place += 1
        self.batches.insert(place, batch)

    def reset_sequences(self) -> None:
        """Start at sequence 0 with the next batch that is sent, because the producer has a new id
        or epoch."""
        self.producer_epoch = -1
        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.needs_epoch = self.unresolved = False

    def restart_sequences(self, producer_epoch: int) -> None:
        """Restart at sequence 0 with a new epoch. Queued batches get new sequences when they are
        sent."""
        self.producer_epoch = producer_epoch
        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.needs_epoch = self.unresolved = False
        for batch in self.batches:
            batch.base_sequence = -1

    def has_earlier(self, batch: Batch) -> bool:
        """Return whether a batch before `batch` is not settled."""
        queued = any(
            b.base_sequence >= 0 and _follows(batch.base_sequence, b.base_sequence)
            for b in self.batches
        )
        return queued or self.earlier_in_flight(batch)

    def earlier_in_flight(self, batch: Batch) -> bool:
        """Return whether a batch before `batch` is in flight."""
        return any(_follows(batch.base_sequence, b.base_sequence) for b in self.in_flight)


def _follows(later: int, earlier: int) -> bool:
    """Return whether sequence `later` is after `earlier`; sequences wrap around."""
    return 0 < (later - earlier) % SEQUENCES < SEQUENCES // 2


class Accumulator:
    """The batches that are not settled yet, and the memory that they use."""

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
        """Return the queue of a partition; create it if missing."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition)
        return queue

    def open_batch(self, queue: PartitionQueue) -> tuple[Batch, bool]:
        """Return the batch for the next record, and whether it is new."""
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
        """Add as many `pairs` to `batch` as fit, from index `start` on. Returns the index of the
        first pair that did not fit."""
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
        """Account for a batch's growth, and seal the batch if some records did not fit."""
        self.used_bytes += batch.size_estimate - size_before
        if not all_in:
            size_before = batch.size_bytes
            batch.seal()
            self.sealed(size_before, batch)

    def force_all(self) -> int:
        """Send all current batches without lingering. Returns the highest serial of those
        batches."""
        limit = self.serial
        self.serial += 1
        for batch in self.unsettled:
            batch.force = True
        return limit

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a record of `size_bytes` fits into the buffer. A single record always fits
        into an empty buffer."""
        return self.used_bytes + size_bytes <= self.memory_bytes or not self.unsettled

    async def wait_for_room(self, size_bytes: int) -> None:
        """Wait until a record of `size_bytes` fits into the buffer."""
        self.waiting += 1
        try:
            while not self.has_room(size_bytes):
                await self._freed.wait()
        finally:
            self.waiting -= 1

    def sealed(self, before: int, batch: Batch) -> None:
        """Account for the smaller size of a batch that had `before` bytes before compression."""
        self.used_bytes += batch.size_bytes - before

    def split(self, queue: PartitionQueue, batch: Batch) -> None:
        """Split a batch that was taken from its queue, and put the two halves in its place."""
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
        """Set a batch's outcome, free its memory and wake the tasks that wait for memory."""
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
    """Return the error for a record that is too large to ever be sent."""
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size_bytes} bytes; {key} is {limit_bytes}"
    )
