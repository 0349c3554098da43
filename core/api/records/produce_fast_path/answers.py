"""The responses to the requests of a run. A response is sent at once, after the replicas have the
records, or with errors.

A response without errors is a copy of bytes (frames.py). Any other is a `ProduceAnswer`, as on the
general path, and is encoded like any message.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from pk.core.api.records.produce_answer import (
    ACKS_ALL,
    VERSION_TOPIC_ID,
    ProduceAnswer,
    acknowledged,
)
from pk.core.api.records.produce_fast_path.frames import PRODUCE, Batch, FramePattern
from pk.core.api.records.produce_fast_path.run import Run
from pk.core.broker.replication.partition import Partition
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError, ProtocolError
from pk.core.log.log import Appended
from pk.core.values import ZERO_UUID
from pk.core.wire.header import RequestHead, frame_response
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
    TopicProduceResponse,
)
from pk.core.wire.types import Part


class AcceptedRequest(Struct):
    """A request that the fast path accepted, and the runs that its batches belong to."""

    pattern: FramePattern
    correlation_id: int
    batches: list[Batch]
    runs: list[Run]
    """The run of each batch."""
    numbers: list[int]
    """The index of each batch in its run."""
    throttle_ms: int = 0
    """The time that the response tells the client to wait."""

    def appended(self) -> bytes | None:
        """Return the response if every batch was appended in a run, otherwise None."""
        pattern = self.pattern
        pieces: list[bytes] = []
        for batch, run, number in zip(self.batches, self.runs, self.numbers, strict=True):
            outcome = run.outcomes[number]
            if type(outcome) is not int:
                return None
            pieces.append(batch.before)
            pieces.append(pattern.pack_offsets(outcome, -1, run.log_start_offset))
        return pattern.answer(self.correlation_id, pieces, self.throttle_ms)

    def results(self) -> list[Appended | Exception]:
        """Return the offsets of each batch, or the error for which it was refused."""
        return [run.result(number) for run, number in zip(self.runs, self.numbers, strict=True)]

    def encode_results(
        self, context: Context, results: list[Appended | Exception], late: dict[int, KafkaError]
    ) -> list[Part]:
        """Return the encoded response, whatever the results. `late` has the errors of batches that
        were appended, by their number.

        Raises ProtocolError if a batch was refused and the client wants no response (acks=0), and
        any exception among `results` that is not a KafkaError.
        """
        pattern = self.pattern
        version = pattern.version
        context = context.of_request(PRODUCE, version, self.correlation_id, pattern.client_id)
        answer = ProduceAnswer(context, pattern.acks)
        answer.response.throttle_time_ms = self.throttle_ms
        topics = answer.response.responses
        entry = -1
        for number, (batch, run, result) in enumerate(
            zip(self.batches, self.runs, results, strict=True)
        ):
            name = run.partition.tp.topic
            if batch.entry != entry:
                entry = batch.entry
                if version >= VERSION_TOPIC_ID:
                    topics.append(TopicProduceResponse(topic_id=batch.topic))
                else:
                    topics.append(TopicProduceResponse(name=name))
            partition = PartitionProduceResponse(index=batch.partition)
            topics[-1].partition_responses.append(partition)
            if isinstance(result, KafkaError):
                answer.refuse(partition, result, name)
            elif isinstance(result, Exception):
                raise result
            else:
                partition.base_offset = result.base_offset
                partition.log_append_time_ms = result.log_append_time_ms
                partition.log_start_offset = result.log_start_offset
            if number in late:
                answer.fail(partition, late[number])
        if answer.unanswered is not None:
            raise ProtocolError(answer.unanswered)
        return frame_response(answer.response, PRODUCE, version, self.correlation_id)

    @property
    def head(self) -> RequestHead:
        """The request's header."""
        pattern = self.pattern
        return RequestHead(PRODUCE, pattern.version, self.correlation_id, pattern.client_id, 0)

    def message(self) -> ProduceRequest:
        """Return the request, without its records."""
        topics: list[TopicProduceData] = []
        entry = -1
        for batch, run in zip(self.batches, self.runs, strict=True):
            if batch.entry != entry:
                entry = batch.entry
                by_id = self.pattern.version >= VERSION_TOPIC_ID
                topic_id = batch.topic if by_id else ZERO_UUID
                topics.append(TopicProduceData(name=run.partition.tp.topic, topic_id=topic_id))
            topics[-1].partition_data.append(PartitionProduceData(index=batch.partition))
        return ProduceRequest(
            acks=self.pattern.acks, timeout_ms=self.pattern.timeout_ms, topic_data=topics
        )


class FailedProduce(NamedTuple):
    """A request that failed with an unexpected exception: a bug in pk."""

    request: AcceptedRequest
    error: Exception


class _Wait(NamedTuple):
    number: int
    """The index of the batch in its request."""
    partition: Partition
    next_offset: int
    leader_epoch: int
    """The leader epoch in which the batch was appended."""


class DelayedProduce:
    """A request whose batches are appended, but not all of them as safe as its `acks` requires."""

    __slots__ = ("_answer", "_context", "_deadline", "_results", "_waits", "request")

    def __init__(
        self,
        context: Context,
        request: AcceptedRequest,
        results: list[Appended | Exception],
        answer: bytes | None,
        deadline: float,
    ) -> None:
        """`answer` is the response if nothing fails, or None if a batch was refused. `deadline` is
        a time of trio's clock."""
        self.request = request
        self._context, self._results = context, results
        self._answer, self._deadline = answer, deadline
        acks_all = request.pattern.acks == ACKS_ALL
        self._waits: list[_Wait] = []
        for number, (run, result) in enumerate(zip(request.runs, results, strict=True)):
            if isinstance(result, Appended):
                partition, next_offset = run.partition, result.last_offset + 1
                if run.must_wait(next_offset, acks_all=acks_all):
                    epoch = partition.leader_epoch
                    self._waits.append(_Wait(number, partition, next_offset, epoch))

    @property
    def is_ready(self) -> bool:
        """Whether `answer` would not wait."""
        acks_all = self.request.pattern.acks == ACKS_ALL
        return not self._waits or (
            acks_all and all(p.is_committed(offset, epoch) for _, p, offset, epoch in self._waits)
        )

    async def answer(self) -> list[Part]:
        """Wait, and return the response. Raises the errors of `AcceptedRequest.encode_results`."""
        late: dict[int, KafkaError] = {}
        for number, partition, next_offset, epoch in self._waits:
            error = await acknowledged(
                self.request.pattern.acks, partition, next_offset, self._deadline, epoch
            )
            if error is not None:
                late[number] = error
        if self._answer is not None and not late:
            return [self._answer]
        return self.request.encode_results(self._context, self._results, late)
