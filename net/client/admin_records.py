"""Single records seen from outside any group: when was the record at an offset produced?

A Fetch asks for a little of many partitions at once; the broker gives the first batch of the first partition whole however
large it is (KIP-74), and leaves out others whose first batch is larger than what was asked for. Those are asked for again,
each alone. Where the batch at an offset holds no record at or after it (a transaction's marker, a hole that compaction
left at a batch's end) the next one is looked at.
"""

from collections.abc import Iterable
from typing import Any, Final

import trio

from pk.core.errors import KafkaError
from pk.core.record.batch import iter_headers, records
from pk.core.values import TopicPartition
from pk.net.client.admin_base import AdminBase, Failure, Routed
from pk.net.client.connection import Connection

RecordPlace = tuple[TopicPartition, int]
"""A partition, and the offset from which on the first record is meant."""

_PARTITION_BYTES: Final = 16 * 1024
_ALONE_BYTES: Final = 1024 * 1024
_PARTITIONS_A_REQUEST: Final = 100
_REQUESTS_AT_ONCE: Final = 8
_FETCH_MAX: Final = 12
"""Fetch names topics by id from version 13 on; by name serves here."""

_NOTHING: Final = object()
"""The answer left the partition out."""


class RecordOperations(AdminBase):
    """The part of `Admin` that looks at records."""

    async def record_times(
        self, places: Iterable[RecordPlace]
    ) -> dict[RecordPlace, int | Failure | None]:
        """The timestamp (epoch ms) of the first record from each offset on; None where there is none yet.

        The same partition may be named with several offsets. Reads uncommitted, joins no group. Needs Fetch 4 (0.11).
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

        def failed(place: RecordPlace, error: Exception) -> None:
            stale.add(place[0].topic)

        return await self._batches(wanted, route, _record_times, failed)


async def _record_times(connection: Connection, places: list[RecordPlace]) -> dict[Any, Any]:
    """What one leader answers for its places."""
    answers: dict[RecordPlace, Any] = {}
    todo: dict[RecordPlace, int] = {place: place[1] for place in places}
    """Place → the offset to look at next for it."""

    alone = False
    while todo:
        found = await _look(connection, todo, alone)
        again: dict[RecordPlace, int] = {}
        for place, answer in found.items():
            if isinstance(answer, _Later):
                again[place] = answer.offset
            elif answer is _NOTHING and not alone:
                again[place] = todo[place]
            else:
                answers[place] = None if answer is _NOTHING else answer
        alone = True
        todo = again
    return answers


class _Later:
    """There is no record in the batch at the offset, but there may be one from `offset` on."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset


async def _look(
    connection: Connection, todo: dict[RecordPlace, int], alone: bool
) -> dict[RecordPlace, Any]:
    """One look at each place: a timestamp, None, a failure, `_Later`, or `_NOTHING`."""
    found: dict[RecordPlace, Any] = {}
    limit = trio.CapacityLimiter(_REQUESTS_AT_ONCE)

    async def ask(places: dict[TopicPartition, RecordPlace]) -> None:
        async with limit:
            found.update(await _fetch(connection, places, todo, alone))

    async with trio.open_nursery() as nursery:
        for places in _rounds(todo, 1 if alone else _PARTITIONS_A_REQUEST):
            nursery.start_soon(ask, places)
    return found


def _rounds(places: Iterable[RecordPlace], most: int) -> list[dict[TopicPartition, RecordPlace]]:
    """The places in as few requests as will do: none names a partition twice, or more than `most` of them."""
    rounds: list[dict[TopicPartition, RecordPlace]] = []
    first: dict[TopicPartition, int] = {}
    """The first round that may still take the partition."""

    open_from = 0
    for place in places:
        partition = place[0]
        at = max(first.get(partition, 0), open_from)
        while at < len(rounds) and len(rounds[at]) >= most:
            at += 1
        if at == len(rounds):
            rounds.append({})
        rounds[at][partition] = place
        first[partition] = at + 1
        while open_from < len(rounds) and len(rounds[open_from]) >= most:
            open_from += 1
    return rounds


async def _fetch(
    connection: Connection,
    places: dict[TopicPartition, RecordPlace],
    todo: dict[RecordPlace, int],
    alone: bool,
) -> dict[RecordPlace, Any]:
    from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    size = _ALONE_BYTES if alone else _PARTITION_BYTES
    topics: dict[str, FetchTopic] = {}
    for partition, place in places.items():
        topic = topics.setdefault(partition.topic, FetchTopic(topic=partition.topic))
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition, fetch_offset=todo[place], partition_max_bytes=size
            )
        )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=size * len(places), topics=list(topics.values())
    )
    response = await connection.request(request, low=4, high=_FETCH_MAX)
    if response.error_code:
        return dict.fromkeys(places.values(), KafkaError(response.error_code, "Fetch"))
    found: dict[RecordPlace, Any] = dict.fromkeys(places.values(), _NOTHING)
    for topic in response.responses:
        for data in topic.partitions:
            place = places[TopicPartition(topic.topic, data.partition_index)]
            found[place] = _first(data, place, todo[place])
    return found


def _first(data: Any, place: RecordPlace, offset: int) -> Any:
    """What the answer for one partition says of the first record from `offset` on."""
    if data.error_code:
        return KafkaError(data.error_code, str(place[0]))
    if offset >= data.high_watermark:
        return None
    end = None
    try:
        for at, header in iter_headers(data.records or b""):
            end = header.next_offset
            if header.is_control or header.last_offset < offset:
                continue
            batch = data.records[at : at + header.size]
            for record in records(batch, header):
                if record.offset >= offset:
                    return record.timestamp
    except KafkaError as e:
        return KafkaError(e.code, f"{place[0]} at {offset}: {e.message}")
    return _NOTHING if end is None or end <= offset else _Later(end)
