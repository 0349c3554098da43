"""Sends the markers of transactions to the leaders of their partitions, until all are written.

It carries out the `SendMarkers` of transaction machines. Markers wait in a queue for each leader,
and one request takes all that wait. During the requests to a leader further markers accumulate, so
requests grow with the load. Markers that a leader has written are reported to their coordinator.
Refused markers are sent again after a pause, to the partition's leader at that time; a partition of
a deleted topic no longer needs a marker.

Closing a coordinator discards its markers: the next coordinator finds the unsent ones in its log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import trio

from pk.core.broker.coordinator.broker_links import BrokerLinks
from pk.core.broker.coordinator.coordinator_shard import CoordinatorShard
from pk.core.broker.coordinator.marker_writer import MarkerWriter
from pk.core.broker.peers import PeerLost
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError
from pk.core.txn.machine import Marked, SendMarkers, TransactionMachine
from pk.core.values import NO_LEADER, TopicPartition
from pk.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

logger = logging.getLogger("pk.transactions")

REQUESTS_MAX: Final = 5
"""The maximum number of concurrent requests to one leader."""
PARTITIONS_MAX: Final = 2000
"""The maximum number of markers in one request, unless a single transaction has more."""

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 1.0
"""The longest pause before a refused marker is sent again, in seconds. Pauses double up to this."""

SETTLED: Final = (
    ErrorCode.NONE,
    # The partition has a newer epoch of this producer: the transaction cannot be open there.
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
"""The error codes after which a partition needs no marker."""


class _PendingMarkers(NamedTuple):
    """Partitions of one transaction that have the same leader and need a marker."""

    coordinator: CoordinatorShard[TransactionMachine]
    markers: SendMarkers
    partitions: tuple[TopicPartition, ...]
    pause_s: float
    """The pause before they are sent again if they are refused, in seconds."""


class MarkerSender:
    """Sends markers. One for each broker."""

    def __init__(
        self,
        state: BrokerState,
        links: BrokerLinks,
        writer: MarkerWriter,
        start_soon: Callable[..., None],
    ) -> None:
        """`writer` writes the markers of this broker's own partitions; `start_soon` starts a
        background task."""
        self._state = state
        self._links = links
        self._writer = writer
        self._start_soon = start_soon
        self._queues: dict[int, list[_PendingMarkers]] = {}
        self._draining: dict[int, int] = {}

    def send(self, coordinator: CoordinatorShard[TransactionMachine], markers: SendMarkers) -> None:
        """Begin to send `markers` for `coordinator`. Never blocks, and makes no decision before it
        returns."""
        if markers.partitions:
            self._enqueue(coordinator, markers, markers.partitions, PAUSE_S_MIN)
        else:
            self._start_soon(self._report_empty, coordinator, markers)

    def close(self) -> None:
        """Close the connections."""
        self._links.close()

    async def _report_empty(
        self, coordinator: CoordinatorShard[TransactionMachine], markers: SendMarkers
    ) -> None:
        await self._report(coordinator, [Marked(markers.transactional_id, markers.producer, ())])

    def _enqueue(
        self,
        coordinator: CoordinatorShard[TransactionMachine],
        markers: SendMarkers,
        partitions: Iterable[TopicPartition],
        pause_s: float,
    ) -> None:
        """Queue partitions for their leaders. Those without a leader are queued again after a
        pause; those of deleted topics are reported as written."""
        image = self._state.image
        by_leader: dict[int, list[TopicPartition]] = {}
        deleted: list[TopicPartition] = []
        for tp in sorted(partitions):
            found = image.partition(tp.topic, tp.partition)
            if found is None:
                deleted.append(tp)
            else:
                by_leader.setdefault(found.leader, []).append(tp)
        if deleted:
            marked = Marked(markers.transactional_id, markers.producer, deleted)
            self._start_soon(self._report, coordinator, [marked])
        for leader, tps in by_leader.items():
            due = _PendingMarkers(coordinator, markers, tuple(tps), pause_s)
            if leader == NO_LEADER:
                self._start_soon(self._requeue, [due])
                continue
            self._queues.setdefault(leader, []).append(due)
            if self._draining.get(leader, 0) < REQUESTS_MAX:
                self._draining[leader] = self._draining.get(leader, 0) + 1
                self._start_soon(self._drain, leader)

    async def _drain(self, leader: int) -> None:
        """Send the markers that wait for one leader, request after request."""
        try:
            while self._queues.get(leader):
                if batch := self._next_batch(leader):
                    await self._send(leader, batch)
        finally:
            self._draining[leader] -= 1

    def _next_batch(self, leader: int) -> list[_PendingMarkers]:
        queue, taken, partitions = self._queues[leader], 0, 0
        for due in queue:
            if taken and partitions + len(due.partitions) > PARTITIONS_MAX:
                break
            taken += 1
            partitions += len(due.partitions)
        batch, self._queues[leader] = queue[:taken], queue[taken:]
        return [due for due in batch if due.coordinator.is_active]

    async def _send(self, leader: int, batch: list[_PendingMarkers]) -> None:
        timeout_ms = self._state.config.request_timeout_ms
        request = WriteTxnMarkersRequest(markers=[_marker(due) for due in batch])
        try:
            if leader == self._state.node_id:
                response = await self._writer.write(request, timeout_ms=timeout_ms)
            else:
                response = await self._links.request(leader, request, timeout_ms=timeout_ms)
        except (PeerLost, KafkaError) as e:
            logger.info("markers for broker %d could not be sent: %s", leader, e)
            self._start_soon(self._requeue, batch)
            return
        refused: list[_PendingMarkers] = []
        written: dict[CoordinatorShard[TransactionMachine], list[Marked]] = {}
        for due, result in zip(batch, response.markers, strict=False):
            codes = {
                TopicPartition(topic.name, p.partition_index): p.error_code
                for topic in result.topics
                for p in topic.partitions
            }
            done = [tp for tp in due.partitions if codes.get(tp) in SETTLED]
            if done:
                marked = Marked(due.markers.transactional_id, due.markers.producer, done)
                written.setdefault(due.coordinator, []).append(marked)
            if len(done) < len(due.partitions):
                rest = tuple(tp for tp in due.partitions if codes.get(tp) not in SETTLED)
                refused.append(due._replace(partitions=rest))
        if len(response.markers) < len(batch):
            refused += batch[len(response.markers) :]
        if refused:
            self._start_soon(self._requeue, refused)
        for coordinator, marked in written.items():
            await self._report(coordinator, marked)

    async def _requeue(self, refused: list[_PendingMarkers]) -> None:
        """Queue the markers again after a pause, for the leaders at that time."""
        await trio.sleep(max(due.pause_s for due in refused))
        for due in refused:
            if due.coordinator.is_active:
                pause_s = min(2 * due.pause_s, PAUSE_S_MAX)
                self._enqueue(due.coordinator, due.markers, due.partitions, pause_s)

    async def _report(
        self, coordinator: CoordinatorShard[TransactionMachine], marked: list[Marked]
    ) -> None:
        """Report the written markers to the coordinator, and retry while its log refuses the
        resulting records."""
        while coordinator.is_active:
            if coordinator.when_active(lambda machine, now_ms: machine.marked(marked, now_ms)):
                return
            await trio.sleep(PAUSE_S_MAX)


def _marker(due: _PendingMarkers) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, partition in due.partitions:
        topics.setdefault(topic, []).append(partition)
    markers = due.markers
    return WritableTxnMarker(
        producer_id=markers.producer.producer_id,
        producer_epoch=markers.producer.epoch,
        transaction_result=markers.committed,
        topics=[WritableTxnMarkerTopic(name=t, partition_indexes=p) for t, p in topics.items()],
        coordinator_epoch=due.coordinator.leader_epoch,
        transaction_version=markers.transaction_version,
    )
