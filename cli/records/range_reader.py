"""Reads ranges of partitions without a group, for `consume`, `cp` and other commands.

A range is finished when the consumer's position reaches its end, not after a number of records:
compaction and transaction markers leave gaps in the offsets, and the end itself may be in a gap.
"""

import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import trio

from pk.cli.exits import CommandError
from pk.cli.records.source import Source
from pk.core.errors import ErrorCode
from pk.core.record.batch import Record, record_list
from pk.core.record.bulk_read import values
from pk.core.values import ZERO_UUID, TopicPartition, Uuid
from pk.net.client.consumer import Consumer
from pk.net.client.subscription import FetchedBatch

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_TICK_MS = 100
"""How often positions are checked while no records arrive."""

_LOOK_MS = 1000
"""How often positions are checked if no range has an end: only to find out whether the topics still
exist."""

GONE_S = 3.0
"""A topic that is unknown for this long was deleted. For a shorter time, one broker may not know it
yet."""

_BUFFERED_MAX = 20_000
"""A merge pauses fetching from a partition that has this many waiting records."""


class Span(NamedTuple):
    """The offsets to read in a partition: from `begin` up to but not including `end`; None means
    without end."""

    begin: int
    end: int | None


class Part:
    """Records of one batch, in order. A whole batch is parsed only when its records are needed."""

    __slots__ = ("_batch", "_records", "source")

    def __init__(
        self, source: Source, found: Sequence[Record] | None, batch: FetchedBatch | None = None
    ) -> None:
        assert found is not None or batch is not None
        self.source = source
        self._records = found
        self._batch = batch

    @property
    def records(self) -> Sequence[Record]:
        """The records of the batch. Raises KafkaError if it cannot be read."""
        if self._records is None:
            assert self._batch is not None
            self._records = record_list(self._batch.data, self._batch.header)
        return self._records

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        if self._batch is not None:
            return self._batch.header.next_offset
        return self.records[-1].offset + 1

    @property
    def values(self) -> list[bytes | None]:
        """Only the values, in a third of the time that the records take. Raises KafkaError."""
        if self._records is None:
            assert self._batch is not None
            return values(self._batch.data, self._batch.header)
        return [r.value for r in self._records]


Spans = Mapping[TopicPartition, Span]


def source_of(batch: FetchedBatch, profile: str | None = None) -> Source:
    """The common properties of the records of `batch`; `profile` is that of the cluster."""
    return Source(
        batch.partition.topic,
        batch.partition.partition,
        1 if batch.header.log_append_time else 0,
        batch.header.leader_epoch,
        profile,
        batch.header.attributes,
        batch.header.producer_id,
        batch.header.producer_epoch,
        _known_offset(batch.log_start_offset),
        _known_offset(batch.last_stable_offset),
        _known_offset(batch.high_watermark),
    )


def _known_offset(offset: int) -> int | None:
    return None if offset < 0 else offset


def part_of(batch: FetchedBatch, end: int | None = None, profile: str | None = None) -> Part | None:
    """The records of `batch` from the fetch position up to `end`; None if there are none."""
    header, begin = batch.header, batch.start_offset
    if header.base_offset >= begin and (end is None or header.next_offset <= end):
        return Part(source_of(batch, profile), None, batch) if header.count else None
    last = header.next_offset if end is None else end
    found = [r for r in record_list(batch.data, header) if begin <= r.offset < last]
    return Part(source_of(batch, profile), found) if found else None


class RangeReader:
    """Reads `spans`. If all of them have an end, the reader is finished once all are read."""

    def __init__(
        self,
        consumer: Consumer,
        spans: Spans,
        profile: str | None = None,
        *,
        silence_ms: int | None = None,
    ) -> None:
        """`silence_ms` is how long to wait for a record; None means forever."""
        self.consumer = consumer
        self._profile = profile
        self.spans = spans
        self.open = {tp: s for tp, s in spans.items() if s.end is None or s.begin < s.end}
        self.bounded = bool(spans) and all(s.end is not None for s in spans.values())
        self.bytes_read = 0
        """The bytes of the batches read so far, as stored."""

        self.positions = {tp: s.begin for tp, s in self.open.items()}
        """The next offset to read in each partition, at most its end."""

        self.timed_out = False
        """Whether no record arrived for `silence_ms`."""

        self._silence_ms = silence_ms
        self._silent_since: float | None = None
        self._ids: dict[str, Uuid] = {}
        self._missing_since: float | None = None
        consumer.assign(self.open)
        for tp, span in self.open.items():
            consumer.seek(tp, span.begin)

    def add(self, spans: Spans) -> None:
        """Read these partitions, too."""
        self.spans = {**self.spans, **spans}
        self.open |= spans
        self.positions |= {tp: s.begin for tp, s in spans.items()}
        self.consumer.assign(self.open)
        for tp, span in spans.items():
            self.consumer.seek(tp, span.begin)

    @property
    def total(self) -> int:
        """The total number of offsets to read; valid only if every span has an end."""
        return sum(max((s.end or 0) - s.begin, 0) for s in self.spans.values())

    @property
    def done(self) -> int:
        """The number of offsets read so far."""
        closed = sum(
            (s.end or 0) - s.begin for tp, s in self.spans.items() if tp not in self.open and s.end
        )
        return closed + sum(self.positions[tp] - self.spans[tp].begin for tp in self.open)

    async def parts(self, timeout_ms: float | None = None) -> list[Part]:
        """The next records, if any. Waits for them a short time, at most `timeout_ms`.

        Raises KafkaError, ClientError, and CommandError if a topic is deleted during the wait.
        """
        wait = _TICK_MS if any(s.end is not None for s in self.open.values()) else _LOOK_MS
        wait = min(ms for ms in (wait, timeout_ms, self._silence_ms) if ms is not None)
        if self._silent_since is None:
            self._silent_since = trio.current_time()
        batches = await self.consumer.poll_batches(timeout_ms=wait)
        found: list[Part] = []
        for batch in batches:
            span = self.open.get(batch.partition)
            if span is not None:
                self.bytes_read += batch.header.size
                part = part_of(batch, span.end, self._profile)
                if part is not None:
                    found.append(part)
        self._close_finished()
        if found:
            self._silent_since = None  # the time that the caller needs for them is not silence
            return found
        self._check_topics()
        if self._silence_ms is not None:
            silent_ms = (trio.current_time() - self._silent_since) * 1000
            self.timed_out = silent_ms >= self._silence_ms
        return found

    def _check_topics(self) -> None:
        """Raise CommandError if a topic was deleted, or deleted and created again."""
        known = self.consumer.cluster.metadata.topics
        missing = None
        for topic in {tp.topic for tp in self.open}:
            info = known.get(topic)
            if info is None:
                continue
            if info.error_code in _GONE:
                missing = topic
            elif info.topic_id == ZERO_UUID or info.error_code:
                continue
            elif info.topic_id != self._ids.setdefault(topic, info.topic_id):
                raise CommandError(f"{topic} was deleted and created again while it was read.")
        now = trio.current_time()
        if missing is None:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = now
        elif now - self._missing_since >= GONE_S:
            raise CommandError(f"{missing} was deleted while it was read.")

    def _close_finished(self) -> None:
        finished: list[TopicPartition] = []
        for tp, span in self.open.items():
            position = self.consumer.position_nowait(tp)
            if position is None:
                continue
            self.positions[tp] = position if span.end is None else min(position, span.end)
            if span.end is not None and position >= span.end:
                finished.append(tp)
        if finished:
            for tp in finished:
                del self.open[tp]
            self.consumer.assign(self.open)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.consumer.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.consumer.resume(partitions)


def silence_limit(timeout_ms: int | None) -> int | None:
    """How long to wait for a record, by --timeout-ms; None means forever. A negative value means
    forever, as in Apache's tool."""
    return None if timeout_ms is None or timeout_ms < 0 else timeout_ms


Pair = tuple[Source, Record]


async def last_records(
    consumer: Consumer,
    spans: Spans,
    number: int,
    wanted: Callable[[Part], Sequence[Record]] | None = None,
    profile: str | None = None,
    silence_ms: int | None = None,
) -> tuple[list[Pair], bool]:
    """The last `number` records of all `spans` together, by time. If `wanted` is given, only the
    records that it returns count. Also returns whether reading stopped because no record arrived
    for `silence_ms`; the records are then the last of those that had arrived.

    Reads further back if gaps in the offsets or the filter leave too few records, and reads no
    record twice.
    """
    timed_out = False
    todo = {tp: s.end for tp, s in spans.items() if s.end is not None and s.begin < s.end}
    kept: dict[TopicPartition, deque[Pair]] = {tp: deque() for tp in todo}
    reach = number
    while todo and not timed_out:
        window = {tp: Span(max(spans[tp].begin, end - reach), end) for tp, end in todo.items()}
        older = {tp: deque[Pair](maxlen=number - len(kept[tp])) for tp in window}
        reader = RangeReader(consumer, window, profile, silence_ms=silence_ms)
        while reader.open and not reader.timed_out:
            for part in await reader.parts():
                found = part.records if wanted is None else wanted(part)
                tp = TopicPartition(part.source.topic, part.source.partition)
                older[tp].extend((part.source, r) for r in found)
        timed_out = reader.timed_out
        for tp, pairs in older.items():
            kept[tp].extendleft(reversed(pairs))
        todo = {
            tp: span.begin
            for tp, span in window.items()
            if len(kept[tp]) < number and span.begin > spans[tp].begin
        }
        reach *= 8
    return _newest(kept.values(), number), timed_out


def _newest(queues: Iterable[deque[Pair]], number: int) -> list[Pair]:
    """The newest `number` records of the queues, the oldest first. Keeps the order within a
    queue."""
    heads = [(queue[-1], queue) for queue in queues if queue]
    heap = [(*_newness(pair), i, queue) for i, (pair, queue) in enumerate(heads)]
    heapq.heapify(heap)
    found: list[Pair] = []
    while heap and len(found) < number:
        *_, i, queue = heap[0]
        found.append(queue.pop())
        if queue:
            heapq.heapreplace(heap, (*_newness(queue[-1]), i, queue))
        else:
            heapq.heappop(heap)
    found.reverse()
    return found


def _newness(pair: Pair) -> tuple[int, int]:
    return (-pair[1].timestamp, -pair[1].offset)


def _age(pair: Pair) -> tuple[int, str, int, int]:
    source, record = pair
    return (record.timestamp, source.topic, source.partition, record.offset)


async def merged(reader: RangeReader) -> AsyncGenerator[list[Part], None]:
    """The records of all partitions by time, in portions. Keeps the order within a partition. If
    the reader times out, ends with the records that have arrived.

    Fetching from a partition pauses while more than `_BUFFERED_MAX` of its records are waiting.
    """
    waiting: dict[TopicPartition, deque[Pair]] = {tp: deque() for tp in reader.open}
    paused: set[TopicPartition] = set()
    while (reader.open and not reader.timed_out) or any(waiting.values()):
        if reader.open and not reader.timed_out:
            for part in await reader.parts():
                tp = TopicPartition(part.source.topic, part.source.partition)
                waiting[tp].extend((part.source, r) for r in part.records)
        ready = _ready(waiting, set() if reader.timed_out else set(reader.open))
        yield [Part(source, [r for _, r in run]) for source, run in groupby(ready, itemgetter(0))]
        full = {tp for tp in reader.open if len(waiting[tp]) > _BUFFERED_MAX}
        if full - paused:
            reader.pause(full - paused)
        if paused - full:
            reader.resume(tp for tp in paused - full if tp in reader.open)
        paused = full


def _ready(
    waiting: Mapping[TopicPartition, deque[Pair]], still_open: set[TopicPartition]
) -> Iterator[Pair]:
    """The records that are next by time: the oldest one, as long as every unfinished partition has
    a waiting record."""
    if any(not waiting[tp] for tp in still_open):
        return
    heap = [(_age(queue[0]), tp) for tp, queue in waiting.items() if queue]
    heapq.heapify(heap)
    while heap:
        _, tp = heap[0]
        queue = waiting[tp]
        yield queue.popleft()
        if queue:
            heapq.heapreplace(heap, (_age(queue[0]), tp))
        elif tp in still_open:
            return
        else:
            heapq.heappop(heap)
