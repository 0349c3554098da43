"""The sender and the reader of `pk perf`. Records are sent at a rate that does not depend on
answers, or at full speed.

With a rate, each record is due at a time that is fixed from the start, and its latency counts from
then: if the brokers stall, the records due during the stall are late, instead of not being sent at
all (coordinated omission). Without a rate, the latency counts from the moment at which the record
is passed to the producer.

A producer acknowledges batches. The records of a partition are acknowledged in the order in which
they were passed to the producer, so a queue of (time due, count) for each partition gives the
latency of each record.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import trio

from pk.cli.nouns.perf.histogram import Histogram
from pk.cli.nouns.perf.payload import Payloads, Verifier
from pk.core.record.batch import record_list
from pk.core.record.bulk_read import values
from pk.core.values import TopicPartition
from pk.net.client.accumulator import Row
from pk.net.client.consumer import Consumer
from pk.net.client.delivery import BatchDelivered
from pk.net.client.partitioner import KeyCache
from pk.net.client.producer import Producer
from pk.net.client.subscription import FetchedBatch

_CHUNK: Final = 250
"""The number of records that are passed to the producer together if there is no rate."""

_TICK_S: Final = 0.001
_POLL_MS: Final = 100
_FLUSH_TIMEOUT_S: Final = 3.0
"""How long an interrupted run waits for the records that the producer already has."""


class Work(NamedTuple):
    """The records to send: a number of records or a duration, at a rate (records per second) or at
    full speed."""

    records: int | None
    duration_s: float | None
    rate: float | None
    size: int
    warmup: int = 0


class _Waiting:
    """The due times of the unacknowledged records of one partition, in order."""

    __slots__ = ("queue",)

    def __init__(self) -> None:
        self.queue: deque[tuple[int, int]] = deque()
        """(due in ns, number of records due then)."""

    def take(self, count: int, now_ns: int, into: Histogram | None) -> None:
        """Remove the first `count` records, which were acknowledged, and add their latencies to
        `into`."""
        queue = self.queue
        while count > 0 and queue:
            due, number = queue.popleft()
            if number > count:
                queue.appendleft((due, number - count))
                number = count
            if into is not None:
                into.add((now_ns - due) // 1000, number)
            count -= number


@dataclass
class Measured:
    """The counts of a sender or a reader; times are from the monotonic clock."""

    latency: Histogram = field(default_factory=Histogram)
    records: int = 0
    size: int = 0
    """The bytes of keys and values."""

    started_ns: int = 0
    ended_ns: int = 0
    """0 during the run."""

    @property
    def seconds(self) -> float:
        """The duration, until now if the run has not ended."""
        return max((self.ended_ns or time.monotonic_ns()) - self.started_ns, 1) / 1e9


@dataclass
class Sent(Measured):
    """The counts of a sender so far, without the warm-up."""

    acked: int = 0
    failed: int = 0
    error: Exception | None = None


class Sender:
    """Sends records and measures the time to their acknowledgement."""

    producer: Producer

    def __init__(self, topic: str, partitions: int, work: Work, payloads: Payloads) -> None:
        self.sent = Sent()
        self.numbered = 0
        """The number of all records sent, which is also the number of the next record."""

        self.done = trio.Event()
        self.before_next: Callable[[int], Any] | None = None
        """Called and awaited before the next record, with the number of records sent so far, to
        send one record at a time."""

        self._topic = topic
        self._partitions = partitions
        self._work = work
        self._payloads = payloads
        self._waiting = [_Waiting() for _ in range(partitions)]
        self._keys = KeyCache(partitions)
        self._turn = 0
        self._measuring = True

    def on_delivery(self, batch: BatchDelivered) -> None:
        """The callback of the producer for each batch that was acknowledged or has failed."""
        now = time.monotonic_ns()
        good = batch.error is None
        into = self.sent.latency if good and self._measuring else None
        self._waiting[batch.partition.partition].take(batch.count, now, into)
        if not self._measuring:
            return
        self.sent.ended_ns = now
        if good:
            self.sent.acked += batch.count
        else:
            self.sent.failed += batch.count
            self.sent.error = self.sent.error or batch.error

    async def run(self) -> None:
        """Send the warm-up, then everything else, and wait for the last acknowledgement."""
        work = self._work
        try:
            if work.warmup:
                self._measuring = False
                await self._send(work._replace(records=work.warmup, duration_s=None))
                await self.producer.flush()
                self._measuring = True
            self.sent.started_ns = time.monotonic_ns()
            await self._send(work)
            await self.producer.flush()
        except trio.Cancelled:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _FLUSH_TIMEOUT_S):
                await self.producer.flush()
            self._measuring = False
            self.producer.close()  # otherwise its end would flush, however long that takes
            raise
        finally:
            self.sent.ended_ns = self.sent.ended_ns or time.monotonic_ns()
            self.done.set()

    async def _send(self, work: Work) -> None:
        started = time.monotonic_ns()
        end_ns = None if work.duration_s is None else started + int(work.duration_s * 1e9)
        sent = 0
        while work.records is None or sent < work.records:
            now = time.monotonic_ns()
            if end_ns is not None and now >= end_ns:
                return
            left = _CHUNK if work.records is None else min(_CHUNK, work.records - sent)
            if self.before_next is not None:
                await self.before_next(self.numbered)
                due = [time.monotonic_ns()]
            elif work.rate is None:
                due = [now] * left
            else:
                ready = int((now - started) * work.rate / 1e9) + 1 - sent
                if ready <= 0:
                    await trio.sleep(max(_TICK_S, sent / work.rate - (now - started) / 1e9))
                    continue
                step = 1e9 / work.rate
                due = [started + int((sent + i) * step) for i in range(min(left, ready))]
            await self._hand_over(due)
            sent += len(due)

    async def _hand_over(self, due: list[int]) -> None:
        first = self.numbered
        self.numbered += len(due)
        if self._payloads.keyed:
            size = await self._rows(first, due)
        else:
            size = await self._values(first, due)
        if self._measuring:
            self.sent.records += len(due)
            self.sent.size += size

    async def _values(self, first: int, due: list[int]) -> int:
        partition = self._next()
        found = self._payloads.values(first, due)
        self._expect(partition, due)
        await self.producer.send_many(self._topic, found, partition=partition)
        return self._work.size * len(found)

    async def _rows(self, first: int, due: list[int]) -> int:
        turn, size = self._next(), 0
        placed: list[Row] = []
        for row, at in zip(self._payloads.rows(first, due), due, strict=True):
            key, value, headers, timestamp, _ = row
            partition = turn if key is None else self._keys[key]
            self._expect(partition, [at])
            placed.append((key, value, headers, timestamp, partition))
            size += len(key or b"") + len(value or b"")
        await self.producer.send_rows(self._topic, placed)
        return size

    def _expect(self, partition: int, due: list[int]) -> None:
        queue = self._waiting[partition].queue
        if due[0] == due[-1]:
            queue.append((due[0], len(due)))
        else:
            queue.extend((at, 1) for at in due)

    def _next(self) -> int:
        self._turn = (self._turn + 1) % self._partitions
        return self._turn


@dataclass
class Read(Measured):
    """The counts of a reader so far. `size` is the size of the stored batches if values are not
    checked."""

    first_ns: int = 0


class Reader:
    """Reads partitions and checks each record. With `latency`, it also measures the time since the
    record was due."""

    def __init__(self, verifier: Verifier | None, *, marked: bool, latency: bool) -> None:
        self.read = Read()
        self.verifier = verifier
        self.arrived = trio.Event()
        """Set and replaced after each poll that returned records."""

        self.measured_from: Callable[[], int] = lambda: 0
        """Records due before this time (in ns) belong to the warm-up and are not measured."""

        self._marked = marked
        self._latency = latency

    def take(self, batches: list[FetchedBatch]) -> None:
        """Count and check the batches of a poll."""
        now = time.monotonic_ns()
        read = self.read
        read.first_ns = read.first_ns or now
        read.ended_ns = now
        for batch in batches:
            if self.verifier is None:
                read.records += batch.header.count
                read.size += batch.header.size
            else:
                self._check(batch, now)
        arrived, self.arrived = self.arrived, trio.Event()
        arrived.set()

    def _check(self, batch: FetchedBatch, now: int) -> None:
        assert self.verifier is not None
        partition = batch.partition.partition
        if self._marked and batch.start_offset <= batch.header.base_offset:
            found = values(batch.data, batch.header)
            for value in found:
                self._one(self.verifier.value(value, partition), now)
                self.read.size += len(value or b"")
            self.read.records += len(found)
            return
        for record in record_list(batch.data, batch.header):
            if record.offset < batch.start_offset:
                continue
            self._one(self.verifier.record(record, partition), now)
            self.read.records += 1
            self.read.size += len(record.key or b"") + len(record.value or b"")

    def _one(self, due_ns: int | None, now: int) -> None:
        if self._latency and due_ns is not None and due_ns >= self.measured_from():
            self.read.latency.add((now - due_ns) // 1000)

    async def until(
        self, consumer: Consumer, finished: Callable[[], bool], *, timeout_s: float
    ) -> bool:
        """Read until `finished`. Returns False if no records arrived for `timeout_s` seconds."""
        self.read.started_ns = self.read.started_ns or time.monotonic_ns()
        last = trio.current_time()
        while not finished():
            batches = await consumer.poll_batches(timeout_ms=_POLL_MS)
            if batches:
                self.take(batches)
                last = trio.current_time()
            elif trio.current_time() - last > timeout_s:
                return False
        return True


def at_ends(consumer: Consumer, ends: dict[TopicPartition, int]) -> Callable[[], bool]:
    """A function that says whether all partitions are read up to `ends`."""

    def finished() -> bool:
        return all((consumer.position_nowait(tp) or 0) >= end for tp, end in ends.items())

    return finished
