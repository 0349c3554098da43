"""Reads the timestamps of single records by offset, without a group.

A Fetch requests a little data from many partitions at once. The broker returns the first batch of
the first partition whole, however large (KIP-74), and leaves out other partitions whose first batch
is too large. Those are requested again, one at a time. If the batch at an offset has no record at
or after it (a transaction marker, or a gap that compaction left at a batch's end), the next one is
read.

Many offsets of one partition are often close together, such as those of a topic's groups. So the
lowest is requested first, and its response settles all offsets whose records it contains; the
others are then requested several at a time.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import trio

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin_operations.base import AdminBase, Routed
from pk.net.client.answers import Answers
from pk.net.client.connection import Connection

if TYPE_CHECKING:
    from pk.core.record.batch import BatchHeader

RecordPlace = tuple[TopicPartition, int]
"""(partition, the offset at or after which to find the first record)."""

_PARTITION_BYTES: Final = 16 * 1024
_ALONE_BYTES: Final = 1024 * 1024
_PARTITIONS_A_REQUEST: Final = 100
_REQUESTS_AT_ONCE: Final = 8
_FETCH_MAX: Final = 12
"""Fetch uses topic ids from version 13 on; names suffice here."""


class RecordOperations(AdminBase):
    """The part of `Admin` that reads records."""

    async def record_times(
        self, places: Iterable[RecordPlace], *, within_ms: int = 0
    ) -> Answers[RecordPlace, int | None]:
        """Return the timestamp (epoch ms) of the first record at or after each offset; None if
        there is none yet.

        The same partition may be named with several offsets. With `within_ms` a time may be off by
        that much, so that most batches need not be decoded. Reads uncommitted records, does not
        join a group. Needs Fetch 4 (0.11).
        """
        wanted = [(TopicPartition(*partition), offset) for partition, offset in places]
        stale = {partition.topic for partition, _ in wanted}

        async def route(todo: list[RecordPlace]) -> Routed[RecordPlace]:
            if asked := sorted(stale & {partition.topic for partition, _ in todo}):
                await self.cluster.refresh(asked)
                stale.difference_update(asked)
            by_node, failed = self._route_leaders(list({partition for partition, _ in todo}))
            leaders = {partition: node for node, tps in by_node.items() for partition in tps}
            routed: dict[int, list[RecordPlace]] = {}
            for place in todo:
                if place[0] in leaders:
                    routed.setdefault(leaders[place[0]], []).append(place)
            return routed, {place: failed[place[0]] for place in todo if place[0] in failed}

        async def ask(
            connection: Connection, asked: list[RecordPlace]
        ) -> Answers[RecordPlace, int | None]:
            return await _Search(connection, asked, within_ms).run()

        def failed(place: RecordPlace, error: Exception) -> None:
            stale.add(place[0].topic)

        return await self._batches(wanted, route, ask, failed)


class _Search:
    """Finds the records for those places whose partitions one broker leads."""

    def __init__(
        self, connection: Connection, places: Iterable[RecordPlace], within_ms: int
    ) -> None:
        self.connection = connection
        self.within_ms = within_ms
        self.answers: Answers[RecordPlace, int | None] = Answers()
        self.open: dict[TopicPartition, dict[int, int]] = {}
        """Partition → its unsettled offsets, lowest first, each with the offset to fetch next for
        it."""

        for partition, offset in sorted(places):
            self.open.setdefault(partition, {})[offset] = offset

    async def run(self) -> Answers[RecordPlace, int | None]:
        """Send requests until every place has an answer."""
        spread, alone = 1, False
        while self.open:
            limit = trio.CapacityLimiter(_REQUESTS_AT_ONCE)
            async with trio.open_nursery() as nursery:
                for round_ in self._rounds(spread, 1 if alone else _PARTITIONS_A_REQUEST):
                    nursery.start_soon(self._ask, limit, round_, alone)
            # Partitions that were left out are too large to share a request.
            spread, alone = _REQUESTS_AT_ONCE, True
        return self.answers

    def _rounds(self, spread: int, most: int) -> list[dict[TopicPartition, int]]:
        """Return requests as partition → offset; each request can name a partition only once. All
        requests together name at most `spread` offsets per partition."""
        rounds: list[dict[TopicPartition, int]] = []
        for i in range(spread):
            named: dict[TopicPartition, int] = {}
            for partition, offsets in self.open.items():
                if i < len(offsets):
                    step = max(len(offsets) // spread, 1)
                    named[partition] = list(offsets.values())[i * step]
            items = list(named.items())
            rounds += [dict(items[at : at + most]) for at in range(0, len(items), most)]
        return rounds

    async def _ask(
        self, limit: trio.CapacityLimiter, places: dict[TopicPartition, int], alone: bool
    ) -> None:
        from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

        size = _ALONE_BYTES if alone else _PARTITION_BYTES
        topics: dict[str, FetchTopic] = {}
        for partition, offset in places.items():
            topic = topics.setdefault(partition.topic, FetchTopic(topic=partition.topic))
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition, fetch_offset=offset, partition_max_bytes=size
                )
            )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=size * len(places), topics=list(topics.values())
        )
        async with limit:
            response = await self.connection.request(request, low=4, high=_FETCH_MAX)
        if response.error_code:
            raise KafkaError(response.error_code, "Fetch")
        for topic in response.responses:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                self._take(partition, places[partition], data, alone)

    def _take(self, partition: TopicPartition, asked: int, data: Any, alone: bool) -> None:
        """Settle all offsets for which the data of one partition, fetched from `asked` on, has the
        answer."""
        from pk.core.record.batch import iter_headers  # lazily: most commands see no record

        if data.error_code:
            error = KafkaError(data.error_code, str(partition))
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._answer(partition, asked, asked + 1, error)
            else:
                self._answer(partition, 0, None, error)
            return
        if asked >= data.high_watermark:
            self._answer(partition, asked, asked + 1, None)
            return
        end = asked
        try:
            for at, header in iter_headers(data.records or b""):
                if header.last_offset < asked:
                    continue
                if not header.is_control:
                    self._batch(partition, asked, header, data.records[at : at + header.size])
                end = header.next_offset
        except KafkaError as e:
            error = KafkaError(e.code, f"{partition.shown} at {asked}: {e.message}")
            self._answer(partition, asked, asked + 1, error)
            return
        if end == asked:
            if alone:  # the broker returns nothing although the HW is higher
                self._answer(partition, asked, asked + 1, None)
            return
        offsets = self.open.get(partition, {})
        for offset, at in offsets.items():
            if asked <= at < end:  # a marker or a gap: the record comes later
                offsets[offset] = end

    def _batch(
        self, partition: TopicPartition, begin: int, header: "BatchHeader", data: memoryview
    ) -> None:
        """Settle the offsets from `begin` on whose first record is in this batch."""
        from pk.core.record.batch import records

        offsets = self.open.get(partition, {})
        within = [at for at in offsets.values() if begin <= at <= header.last_offset]
        if not within:
            return
        # Compaction leaves gaps: only a complete batch has a record at or after each of its
        # offsets.
        whole = header.count == header.last_offset_delta + 1
        spread = header.max_timestamp - header.base_timestamp
        if whole and (header.log_append_time or (self.within_ms and spread <= self.within_ms)):
            time = header.max_timestamp if header.log_append_time else header.base_timestamp
            self._answer(partition, begin, header.next_offset, time)
            return
        last = max(within)
        for record in records(data, header):
            self._answer(partition, begin, record.offset + 1, record.timestamp)
            begin = max(begin, record.offset + 1)
            if record.offset >= last:
                return

    def _answer(
        self,
        partition: TopicPartition,
        begin: int,
        end: int | None,
        answer: int | Exception | None,
    ) -> None:
        """Settle the wanted offsets from `begin` up to `end` (None: to the last)."""
        offsets = self.open.get(partition, {})
        settled = [o for o, at in offsets.items() if begin <= at and (end is None or at < end)]
        for offset in settled:
            del offsets[offset]
            self.answers.add((partition, offset), answer)
        if not offsets:
            self.open.pop(partition, None)
