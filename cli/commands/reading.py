"""Reading ranges of partitions, without a group: what `consume`, `reset-offsets` and the rest share.

A range is read until the position has reached its end, and not until so many records came: offsets have holes where a topic
was compacted or a transaction ended, and no record need lie at the end itself.
"""

import heapq
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pk.cli.record_source import Source
from pk.core.record.batch import Record, records
from pk.core.values import TopicPartition
from pk.net.client.consumer import Consumer
from pk.net.client.results import ListedOffset
from pk.net.client.subscription import FetchedBatch

_TICK_MS = 100
"""How often positions are looked at while no records come."""

_BUFFERED_MAX = 20_000
"""Records of one partition that wait in a merge before its fetching pauses."""


class Span(NamedTuple):
    """What to read of a partition: from `begin` up to, not including, `end` (None: for ever)."""

    begin: int
    end: int | None


class Part(NamedTuple):
    """Records of one batch, in order."""

    source: Source
    records: Sequence[Record]


Spans = Mapping[TopicPartition, Span]


def source_of(batch: FetchedBatch) -> Source:
    return Source(
        batch.partition.topic,
        batch.partition.partition,
        1 if batch.header.log_append_time else 0,
        batch.header.leader_epoch,
    )


def clipped(batch: FetchedBatch, end: int | None) -> list[Record]:
    """The records of `batch` from where its reading began up to `end`."""
    found = list(records(batch.data, batch.header))
    begin = batch.start_offset
    if batch.header.base_offset < begin or (end is not None and batch.header.next_offset > end):
        last = batch.header.next_offset if end is None else end
        found = [r for r in found if begin <= r.offset < last]
    return found


class RangeReader:
    """Reads `spans`; ends by itself once all of them that have an end are read, if none is without."""

    def __init__(self, consumer: Consumer, spans: Spans) -> None:
        self._consumer = consumer
        self.spans = spans
        self.open = {tp: s for tp, s in spans.items() if s.end is None or s.begin < s.end}
        self.bounded = all(s.end is not None for s in spans.values())
        self._positions = {tp: s.begin for tp, s in self.open.items()}
        consumer.assign(self.open)
        for tp, span in self.open.items():
            consumer.seek(tp, span.begin)

    @property
    def total(self) -> int:
        """Offsets to read in all; only where every span has an end."""
        return sum(max((s.end or 0) - s.begin, 0) for s in self.spans.values())

    @property
    def done(self) -> int:
        """Offsets read so far."""
        closed = sum(
            (s.end or 0) - s.begin for tp, s in self.spans.items() if tp not in self.open and s.end
        )
        return closed + sum(self._positions[tp] - self.spans[tp].begin for tp in self.open)

    async def parts(self, timeout_ms: float | None = None) -> list[Part]:
        """The next records, perhaps none; waits `timeout_ms` at most where nothing ends by itself."""
        wait = _TICK_MS if any(s.end is not None for s in self.open.values()) else timeout_ms
        if timeout_ms is not None and wait is not None:
            wait = min(wait, timeout_ms)
        batches = await self._consumer.poll_batches(timeout_ms=wait)
        found = []
        for batch in batches:
            span = self.open.get(batch.partition)
            if span is not None:
                taken = clipped(batch, span.end)
                if taken:
                    found.append(Part(source_of(batch), taken))
        await self._close_finished()
        return found

    async def _close_finished(self) -> None:
        finished = []
        for tp, span in self.open.items():
            if span.end is None:
                continue
            self._positions[tp] = min(await self._consumer.position(tp), span.end)
            if self._positions[tp] >= span.end:
                finished.append(tp)
        if finished:
            for tp in finished:
                del self.open[tp]
            self._consumer.assign(self.open)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume(partitions)


async def first_records(
    consumer: Consumer, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Record]:
    """The first record from each offset on; partitions whose first record does not come are left out."""
    found: dict[TopicPartition, Record] = {}
    ends = await consumer.end_offsets(wanted)
    spans = {}
    for tp, offset in wanted.items():
        end = ends[tp]
        if isinstance(end, ListedOffset) and offset < end.offset:
            spans[tp] = Span(offset, end.offset)
    reader = RangeReader(consumer, spans)
    while reader.open:
        for part in await reader.parts():
            tp = TopicPartition(part.source.topic, part.source.partition)
            found.setdefault(tp, part.records[0])
        enough = [tp for tp in reader.open if tp in found]
        if enough:
            for tp in enough:
                del reader.open[tp]
            consumer.assign(reader.open)
    return found


async def last_records(
    consumer: Consumer, spans: Spans, number: int
) -> list[tuple[Source, Record]]:
    """The last `number` records over all of `spans`, by time. Looks further back where offsets have holes."""
    kept: dict[TopicPartition, list[tuple[Source, Record]]] = {}
    todo = {tp: s for tp, s in spans.items() if s.end is not None and s.begin < s.end}
    reach = number
    while todo:
        window = {tp: Span(max(s.begin, (s.end or 0) - reach), s.end) for tp, s in todo.items()}
        last: dict[TopicPartition, deque[tuple[Source, Record]]] = {
            tp: deque(maxlen=number) for tp in window
        }
        reader = RangeReader(consumer, window)
        while reader.open:
            for part in await reader.parts():
                tp = TopicPartition(part.source.topic, part.source.partition)
                last[tp].extend((part.source, r) for r in part.records)
        for tp, records_ in last.items():
            kept[tp] = list(records_)
        todo = {
            tp: s for tp, s in todo.items() if len(kept[tp]) < number and window[tp].begin > s.begin
        }
        reach *= 8
    merged = sorted((pair for pairs in kept.values() for pair in pairs), key=_age)
    return merged[-number:]


def _age(pair: tuple[Source, Record]) -> tuple[int, str, int, int]:
    source, record = pair
    return (record.timestamp, source.topic, source.partition, record.offset)


async def merged(reader: RangeReader) -> AsyncGenerator[Part, None]:
    """The records of all partitions by time; within a partition their order stays."""
    waiting: dict[TopicPartition, deque[tuple[Source, Record]]] = {
        tp: deque() for tp in reader.open
    }
    paused: set[TopicPartition] = set()
    while reader.open or any(waiting.values()):
        if reader.open:
            for part in await reader.parts():
                tp = TopicPartition(part.source.topic, part.source.partition)
                waiting[tp].extend((part.source, r) for r in part.records)
        for pair in _ready(waiting, set(reader.open)):
            yield Part(pair[0], (pair[1],))
        full = {tp for tp in reader.open if len(waiting[tp]) > _BUFFERED_MAX}
        if full - paused:
            reader.pause(full - paused)
        if paused - full:
            reader.resume(tp for tp in paused - full if tp in reader.open)
        paused = full


def _ready(
    waiting: Mapping[TopicPartition, deque[tuple[Source, Record]]], still_open: set[TopicPartition]
) -> Iterator[tuple[Source, Record]]:
    """What may be shown: the oldest record while every partition that may bring more has one waiting."""
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
