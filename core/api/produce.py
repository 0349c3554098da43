"""Produce (0), versions 3–13: append a batch to each partition named.

KIP-98 (idempotence), KIP-467 (which record was wrong), KIP-516 (v13: topics by id), KIP-951 (the new leader in the answer).
ApiVersions says 0–13 as Apache Kafka does (KAFKA-18659: librdkafka took the absence of 0 for the absence of compression).

From version 3 on there is exactly one batch a partition. The records inside are looked at before the append: small batches
here and now, large and compressed ones in a thread, while the connection waits, since the batch lies in its buffer.
With acks=-1 the answer waits for the high watermark; with acks=0 there is none, and an error closes the connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pk.core.api.registry import NO_RESPONSE, Api, Holding, Operation
from pk.core.broker.context import Context
from pk.core.broker.intake import Admitted, admit, is_small, read_one_batch
from pk.core.broker.offload import offload
from pk.core.broker.partition import Partition
from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.log.log import Origin
from pk.core.record.batch import BatchHeader
from pk.core.record.compress import Codec
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ACKS_ALL = -1
ACKS_NONE = 0
VERSION_ZSTD = 7
VERSION_CURRENT_LEADER = 10
VERSION_TOPIC_ID = 13


class _Appended(NamedTuple):
    """What the answer has to wait for."""

    partition: Partition
    answer: PartitionProduceResponse
    next_offset: int


class _Produce:
    """One request on its way: what is appended, what is answered, what is waited for."""

    __slots__ = ("acks_all", "appended", "context", "names", "now_ms", "request", "response")

    def __init__(self, context: Context, request: ProduceRequest) -> None:
        self.context = context
        self.request = request
        self.acks_all = request.acks == ACKS_ALL
        self.now_ms = context.broker.clock.now_ms()
        self.response = ProduceResponse()
        self.appended: list[_Appended] = []
        self.names: set[int] = set()

    def batches(self) -> Iterator[tuple[str, PartitionProduceData, PartitionProduceResponse]]:
        """Every partition of the request by its topic's name, with its answer, which is already in the response."""
        by_id = self.context.api_version >= VERSION_TOPIC_ID
        image = self.context.broker.image
        for topic in self.request.topic_data:
            answers: list[PartitionProduceResponse] = []
            self.response.responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
            name = topic.name
            if by_id:
                known = image.topic_by_id(topic.topic_id)
                name = known.name if known is not None else ""
            for data in topic.partition_data:
                answer = PartitionProduceResponse(index=data.index, base_offset=-1)
                answers.append(answer)
                yield name, data, answer

    def check(self, name: str, data: PartitionProduceData) -> tuple[Partition, BatchHeader]:
        """The partition that takes the batch, and the batch's header; raises KafkaError where it may not."""
        if not name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.context.broker.replicas.partition(name, data.index)
        header = read_one_batch(data.records, partition.config)
        if header.is_control:
            raise KafkaError(ErrorCode.INVALID_RECORD, "clients do not write control records")
        if header.codec == Codec.ZSTD and self.context.api_version < VERSION_ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
        if header.is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no such transaction is under way")
        return partition, header

    def append(
        self, partition: Partition, admitted: Admitted, answer: PartitionProduceResponse
    ) -> None:
        """Append one batch and fill in its answer."""
        appended = partition.append(
            admitted.batch,
            admitted.header,
            now_ms=self.now_ms,
            acks_all=self.acks_all,
            origin=Origin.CLIENT,
            timestamps=admitted.timestamps,
        )
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = appended.log_start_offset
        next_offset = appended.last_offset + 1
        waits = partition.high_watermark < next_offset if self.acks_all else partition.flushing
        if waits:
            self.appended.append(_Appended(partition, answer, next_offset))

    def refuse(self, answer: PartitionProduceResponse, error: KafkaError, name: str) -> None:
        """Say in the answer what was wrong; with no answer to come, close the connection."""
        if self.request.acks == ACKS_NONE:
            raise ProtocolError(f"produce to {name}-{answer.index} with acks=0: {error}")
        answer.error_code = error.code
        answer.error_message = error.message
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._name_leader(answer, name)

    def _name_leader(self, answer: PartitionProduceResponse, name: str) -> None:
        """KIP-951: who leads now, and where it listens."""
        if self.context.api_version < VERSION_CURRENT_LEADER:
            return
        broker = self.context.broker
        leader = broker.leader_of(name, answer.index)
        if leader is None:
            return
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
        endpoint = broker.endpoint(leader[0], self.context.listener)
        if endpoint is not None and leader[0] not in self.names:
            self.names.add(leader[0])
            host, port, rack = endpoint
            self.response.node_endpoints.append(
                NodeEndpoint(node_id=leader[0], host=host, port=port, rack=rack)
            )

    def finish(self) -> Any:
        """The response, or what awaits it."""
        if self.appended:
            return self._wait()
        return NO_RESPONSE if self.request.acks == ACKS_NONE else self.response

    async def _wait(self) -> Any:
        """Wait for the high watermark (acks=-1), or for the sync that is under way (acks=1)."""
        if self.request.acks == ACKS_NONE:
            return NO_RESPONSE
        deadline = self.context.broker.clock.time() + max(self.request.timeout_ms, 0) / 1000
        for partition, answer, next_offset in self.appended:
            try:
                if self.acks_all:
                    done = await partition.wait_for_high_watermark(next_offset, deadline)
                else:
                    done = await partition.wait_for_flush(next_offset, deadline)
                error = None if done else KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            except KafkaError as e:
                error = e
            if error is not None:
                answer.base_offset = -1
                answer.error_code, answer.error_message = error.code, error.message
        return self.response


def handle(context: Context, request: ProduceRequest) -> Any:
    """Append every batch; one that cannot be says so in its own answer, the others are not touched by it."""
    produce = _Produce(context, request)
    bad_acks = not -1 <= request.acks <= 1
    batches = produce.batches()
    for name, data, answer in batches:
        try:
            if bad_acks:
                raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
            partition, header = produce.check(name, data)
            if not is_small(header, partition.config):
                return Holding(_continue(produce, (name, data, answer), batches))
            admitted = admit(data.records, header, partition.config)
            produce.append(partition, admitted, answer)
        except KafkaError as e:
            produce.refuse(answer, e, name)
    return produce.finish()


async def _continue(
    produce: _Produce,
    first: tuple[str, PartitionProduceData, PartitionProduceResponse],
    rest: Iterator[tuple[str, PartitionProduceData, PartitionProduceResponse]],
) -> Any:
    """The rest of a request in which a batch is too large for the loop: each looked at in a thread, appended here."""
    current: tuple[str, PartitionProduceData, PartitionProduceResponse] | None = first
    while current is not None:
        name, data, answer = current
        try:
            partition, header = produce.check(name, data)
            config = partition.config
            if is_small(header, config):
                admitted = admit(data.records, header, config)
            else:
                admitted = await offload(admit, data.records, header, config)
            produce.append(partition, admitted, answer)
        except KafkaError as e:
            produce.refuse(answer, e, name)
        current = next(rest, None)
    return produce.finish()


def _error_response(request: ProduceRequest, error: KafkaError, version: int) -> ProduceResponse:
    """Every partition of the request with the same error."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id if version >= VERSION_TOPIC_ID else ZERO_UUID,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=error.code,
                        error_message=error.message,
                        base_offset=-1,
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


API = Api(
    key=0,
    versions=(3, 13),
    handle=handle,
    operation=Operation.WRITE,
    error_response=_error_response,
    parks=True,
    advertised=(0, 13),
)
