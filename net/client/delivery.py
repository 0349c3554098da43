"""The results of sending one record (`Delivery`), the records of one call (`Deliveries`), and a
batch (`BatchDelivered`)."""

from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import trio
from msgspec import Struct

from pk.core.errors import without_frames
from pk.core.record.batch import records as decoded
from pk.core.values import TopicPartition
from pk.net.client.accumulator import Batch


class RecordMetadata(NamedTuple):
    """The position of a sent record. `offset` is -1 if the broker did not return it (with acks=0,
    or for a duplicate that the broker recognized)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OutgoingRecord(Struct):
    """A record before it is sent. `on_send` may change it, for example add headers."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    """The partition; None: the partitioner chooses."""

    timestamp_ms: int | None
    """The timestamp; None: the time at which the record is put into a batch."""


OnSettled = Callable[[RecordMetadata | BaseException], None]
"""A function that is called once with the position of a record, or with the error for which it was
not sent, in the client's own task or thread. It must not raise or wait."""

OnSend = Callable[[OutgoingRecord], OnSettled | None]
"""A function that is called with each record, in the task or thread that sends it. If it returns a
function, that function is called when the record is settled."""

Seen = tuple[OutgoingRecord, OnSettled | None]
"""A record as `on_send` left it, and the result of `on_send`."""


class Run(Struct, frozen=True):
    """Consecutive records of a `send_many`: `count` records from `offset` on (-1: the broker did
    not return the offset)."""

    partition: TopicPartition
    offset: int
    count: int


class SentRecord(NamedTuple):
    """A record of a settled batch; `offset` is -1 if it is not known."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class BatchDelivered(Struct, frozen=True):
    """A settled batch, as passed to `on_delivery`. `error` is None if the batch was acknowledged.
    `in_doubt` means that it was not acknowledged, but may be in the log."""

    partition: TopicPartition
    base_offset: int
    count: int
    error: Exception | None
    in_doubt: bool = False
    data: bytes = b""
    """The batch as it was sent; empty if the batch was too large to be sent."""

    def records(self) -> Iterator[SentRecord]:
        """Return the records of the batch."""
        for number, record in enumerate(decoded(self.data) if self.data else ()):
            offset = self.base_offset + number if self.base_offset >= 0 else -1
            yield SentRecord(offset, record.timestamp, record.key, record.value, record.headers)


class Delivery:
    """A record in flight. Awaiting it is the same as awaiting `wait()`."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: Batch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def place(self) -> tuple[Batch, int]:
        """The batch that contains the record, and the record's index in it."""
        return self._batch, self._index

    @property
    def done(self) -> bool:
        """Whether `wait` would return or raise at once."""
        return _settled(self._batch, self._index)[0].settled.is_set()

    def watch(self, settled: OnSettled) -> None:
        """Call `settled` with the result of `wait`, or with its error, when the record is
        settled."""
        timestamp_ms = self._timestamp_ms

        def tell(batch: Batch, index: int) -> None:
            error = batch.error
            settled(Delivery(batch, index, timestamp_ms).result() if error is None else error)

        self._batch.watch(self._index, tell)

    async def wait(self) -> RecordMetadata:
        """Wait until the record is acknowledged. Raises KafkaError or ClientError if the record
        failed."""
        await self._settle()
        return self.result()

    async def _settle(self) -> None:
        batch, index = self._batch, self._index
        while True:
            await batch.settled.wait()
            if not batch.splits:
                return
            batch, index = _settled(batch, index)

    def result(self) -> RecordMetadata:
        """Return the result of `wait`, or raise its error, without waiting. Raises trio.WouldBlock
        unless `done`."""
        batch, index = _settled(self._batch, self._index)
        if not batch.settled.is_set():
            raise trio.WouldBlock
        if batch.error is not None:
            raise without_frames(batch.error)
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        appended_ms = batch.log_append_time_ms
        topic, partition = batch.partition
        timestamp_ms = appended_ms if appended_ms >= 0 else self._timestamp_ms
        return RecordMetadata(topic, partition, offset, timestamp_ms)

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return self.wait().__await__()


def _settled(batch: Batch, index: int) -> tuple[Batch, int]:
    """Return the batch that now holds record `index` of `batch`, which may have been split, and the
    index in that batch."""
    while batch.splits:
        first, part = next(s for s in reversed(batch.splits) if s[0] <= index)
        batch, index = part, index - first
    return batch, index


class Deliveries:
    """The records of one `send_many` in flight."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[Batch, int, int]] = []

    def add(self, batch: Batch, first: int, count: int) -> None:
        self._runs.append((batch, first, count))

    def add_one(self, delivery: Delivery) -> None:
        """Add a record that was sent by itself."""
        batch, index = delivery.place
        if self._runs:
            last, first, count = self._runs[-1]
            if last is batch and first + count == index:
                self._runs[-1] = (batch, first, count + 1)
                return
        self._runs.append((batch, index, 1))

    async def wait(self) -> list[Run]:
        """Wait until all records are settled, and return their positions. Then raises the first
        error if any record failed."""
        await self._settle()
        return self.result()

    async def _settle(self) -> None:
        batches = [batch for batch, _, _ in self._runs]
        while batches:
            batch = batches.pop()
            await batch.settled.wait()
            batches += [part for _, part in batch.splits]

    def result(self) -> list[Run]:
        """Return the result of `wait`, or raise its error, without waiting. Raises trio.WouldBlock
        unless all records are settled."""
        runs: list[Run] = []
        error: Exception | None = None
        pieces = list(reversed(self._runs))
        while pieces:
            batch, first, count = pieces.pop()
            if not batch.settled.is_set():
                raise trio.WouldBlock
            if batch.splits:
                (_, low), (middle, high) = batch.splits
                if first + count > middle:
                    begin = max(first, middle)
                    pieces.append((high, begin - middle, first + count - begin))
                if first < middle:
                    pieces.append((low, first, min(count, middle - first)))
                continue
            error = error or batch.error
            offset = batch.base_offset + first if batch.base_offset >= 0 else -1
            runs.append(Run(batch.partition, offset, count))
        if error is not None:
            raise without_frames(error)
        return runs
