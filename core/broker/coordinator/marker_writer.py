"""Writes the markers that end transactions, on the leaders of their partitions (KIP-98).

A marker is a control record: commit or abort, under the producer's id and epoch, with the epoch of
the coordinator that sends it. The partition refuses a marker of an older producer or coordinator
epoch. The second protocol (KIP-890, KIP-1228) gives the marker a higher epoch than every record of
its transaction, so a late marker cannot end the next transaction.

If the partition is a coordinator's own log, the marker is written by that coordinator, because its
machine must replay it: the offsets committed in the transaction then take effect, or are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from pk.core.broker.clock import Clock
from pk.core.broker.coordinator.coordinator_runtime import CoordinatorRuntime
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replicas import Replicas
from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.build import end_transaction_batch
from pk.core.txn.transaction import SECOND_PROTOCOL
from pk.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = logging.getLogger("pk.transactions")


class _Written(NamedTuple):
    partition: Partition
    next_offset: int
    leader_epoch: int
    result: WritableTxnMarkerPartitionResult


class MarkerWriter:
    """Writes markers on this broker."""

    def __init__(
        self, replicas: Replicas, clock: Clock, coordinators: Iterable[CoordinatorRuntime[Any]]
    ) -> None:
        """`coordinators` are those whose logs transactions write to."""
        self._replicas = replicas
        self._clock = clock
        self._coordinators = {one.topic: one for one in coordinators}

    async def write(
        self, request: WriteTxnMarkersRequest, *, timeout_ms: int
    ) -> WriteTxnMarkersResponse:
        """Append every marker, and wait until they are safe, at most `timeout_ms`. Returns an error
        code for each partition."""
        written: list[_Written] = []
        response = WriteTxnMarkersResponse()
        for marker in request.markers:
            result = WritableTxnMarkerResult(producer_id=marker.producer_id)
            response.markers.append(result)
            for topic in marker.topics:
                answers: list[WritableTxnMarkerPartitionResult] = []
                result.topics.append(
                    WritableTxnMarkerTopicResult(name=topic.name, partitions=answers)
                )
                for index in topic.partition_indexes:
                    answer = WritableTxnMarkerPartitionResult(partition_index=index)
                    answers.append(answer)
                    try:
                        written.append(self._write(topic.name, marker, answer))
                    except KafkaError as e:
                        answer.error_code = e.code
                    except Exception:
                        # The other partitions must get their markers, and the task that sends them
                        # must not end.
                        logger.exception("%s-%d: a marker cannot be written", topic.name, index)
                        answer.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
                    await let_others_run()
        deadline = self._clock.time() + timeout_ms / 1000
        for partition, next_offset, epoch, answer in written:
            await let_others_run()
            if partition.high_watermark >= next_offset and partition.leader_epoch == epoch:
                continue
            try:
                if not await partition.wait_for_high_watermark(next_offset, deadline, epoch):
                    answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            except KafkaError as e:
                answer.error_code = e.code
        return response

    def _write(
        self, topic: str, marker: WritableTxnMarker, answer: WritableTxnMarkerPartitionResult
    ) -> _Written:
        index = answer.partition_index
        partition = self._replicas.partition(topic, index)
        partition.check_leader()
        if marker.transaction_version >= SECOND_PROTOCOL:
            _check_newer(partition, marker)
        committed = marker.transaction_result
        coordinators = self._coordinators.get(topic)
        if coordinators is not None:
            next_offset = coordinators.at(index).append_marker(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                committed=committed,
            )
            return _Written(partition, next_offset, partition.leader_epoch, answer)
        now_ms = self._clock.now_ms()
        batch = end_transaction_batch(
            committed, marker.coordinator_epoch, marker.producer_id, marker.producer_epoch, now_ms
        )
        appended = partition.append(batch, now_ms=now_ms)
        return _Written(partition, appended.last_offset + 1, partition.leader_epoch, answer)


def _check_newer(partition: Partition, marker: WritableTxnMarker) -> None:
    """Raise INVALID_PRODUCER_EPOCH if the marker belongs to an earlier transaction than the open
    one."""
    state = partition.log.state.producers.get(marker.producer_id)
    if state is not None and state.txn_first_offset >= 0 and marker.producer_epoch <= state.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"the open transaction of producer {marker.producer_id} has epoch {state.epoch}, "
            f"the marker {marker.producer_epoch}",
        )
