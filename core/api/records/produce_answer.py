"""The response to a Produce request: when it may be sent, and its errors.

The general path (produce.py) and the fast path (produce_fast_path) share this code, so that their
responses are the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.partition import Partition
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import TRANSACTIONAL_BIT
from pk.core.record.compress import Codec
from pk.core.record.validation import RefusedRecords
from pk.core.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)

ACKS_ALL: Final = -1
ACKS_NONE: Final = 0
UNUSUAL: Final = TRANSACTIONAL_BIT | Codec.ZSTD
"""The attributes of batches that not every request allows."""
VERSION_BATCH: Final = 3
VERSION_STORAGE_ERROR: Final = 4
VERSION_CURRENT_LEADER: Final = 10
VERSION_ABORTABLE: Final = 11
VERSION_ADDS_PARTITIONS: Final = 12
VERSION_TOPIC_ID: Final = 13


class Waiting(NamedTuple):
    """A batch that is appended, but whose result cannot be sent yet."""

    partition: Partition
    answer: PartitionProduceResponse
    next_offset: int
    leader_epoch: int
    """The leader epoch in which the batch was appended."""


class ProduceAnswer:
    """The response to one request, while it is built."""

    __slots__ = ("_acks", "_context", "response", "unanswered")

    def __init__(self, context: Context, acks: int) -> None:
        self._context = context
        self._acks = acks
        self.response = ProduceResponse()
        self.unanswered: str | None = None
        """The error of the first refused partition, for a request without a response (acks=0)."""

    def refuse(self, answer: PartitionProduceResponse, error: KafkaError, name: str) -> None:
        """Set the error in a partition's result; `name` is its topic's name. If the request has no
        response, set `unanswered`."""
        if self._acks == ACKS_NONE:
            self.unanswered = (
                self.unanswered or f"produce to {name}-{answer.index} with acks=0: {error}"
            )
            return
        self.fail(answer, error)
        if isinstance(error, RefusedRecords):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in error.records
            ]
        if (
            error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            and self._context.api_version >= VERSION_CURRENT_LEADER
        ):
            self._name_leader(answer, name)

    def fail(self, answer: PartitionProduceResponse, error: KafkaError) -> None:
        """Set the error of a batch that was refused, or that was appended but is not as safe as
        `acks` requires. Clients that do not know KAFKA_STORAGE_ERROR get a code that makes them
        look for another leader."""
        answer.base_offset = -1
        answer.error_code = error.code
        answer.error_message = error.message
        if (
            error.code == ErrorCode.KAFKA_STORAGE_ERROR
            and self._context.api_version < VERSION_STORAGE_ERROR
        ):
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _name_leader(self, answer: PartitionProduceResponse, name: str) -> None:
        """Set the current leader and its endpoint (KIP-951)."""
        state, endpoints = self._context.broker.state, self.response.node_endpoints
        leader = state.leader_of(name, answer.index)
        if leader is None:
            return
        node_id, epoch = leader
        answer.current_leader = LeaderIdAndEpoch(leader_id=node_id, leader_epoch=epoch)
        endpoint = state.endpoint(node_id, self._context.listener)
        if endpoint is not None and all(known.node_id != node_id for known in endpoints):
            host, port, rack = endpoint
            endpoints.append(NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack))

    async def wait(self, waiting: list[Waiting], timeout_ms: int) -> None:
        """Wait until the batches are as safe as `acks` requires. Sets the errors of the batches
        that fail."""
        deadline = deadline_of(self._context, timeout_ms)
        for partition, answer, next_offset, epoch in waiting:
            await let_others_run()
            error = await acknowledged(self._acks, partition, next_offset, deadline, epoch)
            if error is not None:
                self.fail(answer, error)


def deadline_of(context: Context, timeout_ms: int) -> float:
    """Return the time (trio's clock) at which a request that begins to wait now times out."""
    return context.broker.clock.time() + max(timeout_ms, 0) / 1000


async def acknowledged(
    acks: int, partition: Partition, next_offset: int, deadline: float, leader_epoch: int
) -> KafkaError | None:
    """Wait until the records before `next_offset`, appended in `leader_epoch`, are below the high
    watermark (acks=-1), or synced by the current sync (acks=1). Returns the error for the response
    if that has not happened by `deadline`."""
    try:
        if acks == ACKS_ALL:
            if partition.is_committed(next_offset, leader_epoch):
                return None
            done = await partition.wait_for_high_watermark(next_offset, deadline, leader_epoch)
        else:
            done = await partition.wait_for_flush(next_offset, deadline)
    except KafkaError as e:
        return e
    return None if done else KafkaError(ErrorCode.REQUEST_TIMED_OUT)
