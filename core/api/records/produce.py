"""Produce (0), versions 0–13: appends a batch to each partition of the request.

KIP-98 (idempotence), KIP-467 (the refused record), KIP-516 (v13: topics by id), KIP-951 (the new
leader in the response). Apache Kafka advertises 0–13 too (KAFKA-18659: librdkafka disables
compression if version 0 is missing), but serves 3–13. Versions 0–2 have message sets of the formats
v0 and v1, which are converted to one batch for each partition (core/record/convert.py).

From version 3 on each partition has exactly one batch. It is validated before the append
(core/record/validation.py): small batches on the event loop, large ones in a thread. Meanwhile the
connection waits, because its buffer holds the batch. With acks=-1 the response waits for the high
watermark. With acks=0 there is no response, and an error closes the connection after the rest of
the request has been appended.

The first batch of a transaction in a partition needs the consent of the transaction's coordinator
(KIP-890), and the connection waits for it. From version 12 on, the broker requests that the
coordinator add the partition; before that, it asks whether the client has added it.

Only coordinators write to internal topics, since they read every record there as their state.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Final

import trio

from pk.core.api.authorization import allows
from pk.core.api.records.produce_answer import (
    ACKS_ALL,
    ACKS_NONE,
    UNUSUAL,
    VERSION_ABORTABLE,
    VERSION_ADDS_PARTITIONS,
    VERSION_BATCH,
    VERSION_TOPIC_ID,
    ProduceAnswer,
    Waiting,
)
from pk.core.api.registry import NO_RESPONSE, Answer, parked
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.add_partitions_to_txn_manager import TransactionOperation
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.broker.requests.context import Context
from pk.core.config import TopicConfig
from pk.core.errors import ErrorCode, KafkaError, ProtocolError, without_frames
from pk.core.log.log import Origin
from pk.core.log.producers import Producers, Verification
from pk.core.record.batch import (
    ATTRIBUTES_AT,
    HEADER,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Timestamps,
)
from pk.core.record.validation import (
    ANY_TIME,
    INLINE_RECORDS,
    ValidatedBatch,
    check_codec,
    is_small,
    is_small_set,
    read_one_batch,
    refusal,
    time_bounds,
    validate,
    validate_inline,
    validate_messages,
)
from pk.core.values import INTERNAL_TOPICS, ZERO_UUID, TopicPartition
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics, as in Apache Kafka: its tools that copy topics
use it."""

RETRIED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors after which the coordinator may accept the request if it is repeated."""

Item = tuple[str, PartitionProduceData, PartitionProduceResponse]
"""A partition of the request: its topic's name ("" if the id is unknown), its data, its result."""


INLINE_PARTITIONS: Final = 64
"""A request with more batches lets other tasks run between the batches."""


class _Produce:
    """One request, while it is handled."""

    __slots__ = (
        "acks_all",
        "answer",
        "context",
        "denied",
        "now_ms",
        "refused",
        "request",
        "verified",
        "waiting",
    )

    def __init__(self, context: Context, request: ProduceRequest) -> None:
        self.context = context
        self.request = request
        self.acks_all = request.acks == ACKS_ALL
        self.now_ms = context.broker.clock.now_ms()
        self.answer = ProduceAnswer(context, request.acks)
        self.waiting: list[Waiting] | None = None
        self.verified: dict[TopicPartition, Verification | KafkaError] = {}
        """The results of the transaction's coordinator."""
        id_ = request.transactional_id
        self.denied = id_ is not None and not allows(
            context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, id_
        )
        """Whether the producer must not use its transactional id."""
        self.refused = False
        """Whether the whole request is refused, because a batch uses the denied transactional id.
        Set by `items`."""

    def items(self) -> list[Item]:
        """Return every partition of the request. Their results are already in the response."""
        items: list[Item] = []
        topics = self.answer.response.responses
        by_id = self.context.api_version >= VERSION_TOPIC_ID
        for topic in self.request.topic_data:
            answers: list[PartitionProduceResponse] = []
            name = topic.name
            if by_id:
                known = self.context.broker.image.topic_by_id(topic.topic_id)
                name = known.name if known is not None else ""
                answered = TopicProduceResponse(
                    topic_id=topic.topic_id, partition_responses=answers
                )
            else:
                answered = TopicProduceResponse(name=name, partition_responses=answers)
            topics.append(answered)
            for data in topic.partition_data:
                answer = PartitionProduceResponse(index=data.index)
                answers.append(answer)
                items.append((name, data, answer))
                if self.denied and not self.refused:
                    self.refused = _is_transactional(data.records)
        return items

    def find(self, name: str, data: PartitionProduceData) -> tuple[Partition, BatchHeader | None]:
        """Return the partition to append to, and the batch's header (None for messages of an old
        format). Raises KafkaError if the batch is refused."""
        context = self.context
        if self.refused:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not name and context.api_version >= VERSION_TOPIC_ID:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not allows(context, Operation.WRITE, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.broker.data.replicas.partition(name, data.index)
        if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients may not write to {name}")
        if context.api_version < VERSION_BATCH:
            return partition, None
        header = read_one_batch(data.records, partition.config)
        if header.attributes & UNUSUAL:
            self._check_attributes(header)
        return partition, header

    def _check_attributes(self, header: BatchHeader) -> None:
        """Check that the request allows the batch's attributes. Raises KafkaError."""
        if header.is_transactional and self.request.transactional_id is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        check_codec(header, self.context.api_version)

    def must_verify(self, partition: Partition, header: BatchHeader | None) -> bool:
        """Return whether the batch begins its transaction in the partition."""
        return (
            header is not None
            and header.attributes & TRANSACTIONAL_BIT != 0
            and self.context.broker.config.transaction_partition_verification_enable
            and not partition.log.state.producers.has_open(
                header.producer_id, header.producer_epoch
            )
        )

    async def verify(self, items: list[Item]) -> None:
        """Ask the coordinator about every partition in which a batch begins its transaction."""
        producer: tuple[int, int] | None = None
        unverified: dict[TopicPartition, tuple[Producers, int]] = {}
        for name, data, _ in items:
            await let_others_run()
            try:
                partition, header = self.find(name, data)
                if header is None or not self.must_verify(partition, header):
                    continue
                partition.check_leader()
            except KafkaError as e:
                # The batch is refused with this error later, even if its cause has gone by then:
                # the batch was not verified, and a client that gets the error of an unverified
                # batch gives up.
                self.verified[TopicPartition(name, data.index)] = without_frames(e)
                continue
            producer = producer or (header.producer_id, header.producer_epoch)
            if producer != (header.producer_id, header.producer_epoch):
                self.verified[partition.tp] = KafkaError(
                    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                    "Transactional records contained more than one producer ID",
                )
                continue
            unverified[partition.tp] = partition.log.state.producers, header.base_sequence
        if producer is None or not unverified:
            return
        producer_id, epoch = producer

        def begin() -> None:
            for tp, (producers, sequence) in unverified.items():
                self.verified[tp] = producers.begin_verification(
                    producer_id,
                    epoch,
                    sequence,
                    self.now_ms,
                    second_protocol=operation is TransactionOperation.ADD,
                )

        operation = TransactionOperation.VERIFY
        if self.context.api_version >= VERSION_ADDS_PARTITIONS:
            operation = TransactionOperation.ADD
        elif self.context.api_version >= VERSION_ABORTABLE:
            operation = TransactionOperation.VERIFY_ABORTABLE
        errors = await self.context.broker.groups.add_partitions.add_or_verify(
            operation,
            self.request.transactional_id or "",
            producer_id,
            epoch,
            list(unverified),
            begin,
        )
        for tp, code in errors.items():
            if code != ErrorCode.NONE:
                self.verified[tp] = _verification_error(code, operation)
                if code not in RETRIED:
                    unverified[tp][0].drop_verification(producer_id)

    def check_transaction(self, partition: Partition, header: BatchHeader) -> None:
        """Raise KafkaError if a transactional batch must not be appended."""
        if not self.context.broker.config.transaction_partition_verification_enable:
            return
        verified = self.verified.get(partition.tp)
        if isinstance(verified, KafkaError):
            raise without_frames(verified)
        partition.log.state.producers.check_verified(
            header, verified, from_zero=self.context.api_version >= VERSION_ADDS_PARTITIONS
        )

    def append(
        self, partition: Partition, validated: ValidatedBatch, answer: PartitionProduceResponse
    ) -> None:
        """Append one batch and fill in its result."""
        batch, header, timestamps = validated
        acks_all = self.acks_all
        if header.attributes & TRANSACTIONAL_BIT:
            partition.check_leader()
            self.check_transaction(partition, header)
        appended = partition.append(
            batch,
            header,
            now_ms=self.now_ms,
            acks_all=acks_all,
            origin=Origin.CLIENT,
            timestamps=timestamps,
        )
        if not appended.duplicate:
            counted = self.context.broker.state.metrics.topic(partition.tp.topic)
            counted.messages_in += appended.last_offset - appended.base_offset + 1
            counted.bytes_in += len(batch)
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = appended.log_start_offset
        next_offset = appended.last_offset + 1
        if partition.high_watermark < next_offset if acks_all else partition.flushing:
            if self.waiting is None:
                self.waiting = []
            self.waiting.append(Waiting(partition, answer, next_offset, partition.leader_epoch))

    def finish(self) -> Any:
        """Return the response, or an awaitable of it. Raises ProtocolError if a batch was refused
        and the client wants no response."""
        if self.answer.unanswered is not None:
            raise ProtocolError(self.answer.unanswered)
        if self.waiting is not None:
            return self._wait(self.waiting)
        return NO_RESPONSE if self.request.acks == ACKS_NONE else self.answer.response

    async def _wait(self, waiting: list[Waiting]) -> Any:
        if self.request.acks == ACKS_NONE:
            return NO_RESPONSE
        await self.answer.wait(waiting, self.request.timeout_ms)
        return self.answer.response


def handle(context: Context, request: ProduceRequest) -> Answer[ProduceResponse]:
    """Append every batch. A refused batch has its own error, and does not affect the others."""
    produce = _Produce(context, request)
    items = produce.items()
    if not -1 <= request.acks <= 1:
        for name, _, answer in items:
            produce.answer.refuse(answer, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS), name)
        return produce.answer.response
    if len(items) > INLINE_PARTITIONS:
        return _continue(produce, items)
    records = 0
    for i, (name, data, answer) in enumerate(items):
        try:
            partition, header = produce.find(name, data)
            records += header.count if header is not None else 0
            small = _is_small(data.records, header, partition.config)
            if not small or records > INLINE_RECORDS or produce.must_verify(partition, header):
                return _continue(produce, items[i:])
            validated = _validate(validate_inline, data.records, header, partition, produce.now_ms)
            if validated is None:
                return _continue(produce, items[i:])
            produce.append(partition, validated, answer)
        except KafkaError as e:
            produce.answer.refuse(answer, e, name)
        data.records = None  # a waiting request does not keep its connection's buffer
    answer = produce.finish()
    return parked(answer) if isawaitable(answer) else answer


async def _continue(produce: _Produce, items: list[Item]) -> Any:
    """Append the rest of a request that is too large for the event loop to append at once, or whose
    transaction must be verified. Large batches are validated in a thread."""
    await produce.verify(items)
    for name, data, answer in items:
        await let_others_run()
        try:
            partition, header = produce.find(name, data)
            arguments = data.records, header, partition, produce.now_ms
            validated = None
            if _is_small(data.records, header, partition.config):
                validated = _validate(validate_inline, *arguments)
                await trio.lowlevel.checkpoint()
            if validated is None:
                validated = await offload(_validate, validate, *arguments)
                assert validated is not None
            produce.append(partition, validated, answer)
        except KafkaError as e:
            produce.answer.refuse(answer, e, name)
        data.records = None
    return produce.finish()


def _is_transactional(records: memoryview | None) -> bool:
    """Return whether the first batch belongs to a transaction."""
    if records is None or len(records) < HEADER.size or records[MAGIC_AT] != MAGIC:
        return False
    return records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT != 0


def _verification_error(code: ErrorCode, operation: TransactionOperation) -> KafkaError:
    """Return the producer's error if the coordinator did not consent. If the coordinator may soon
    consent, it is an error that makes every client retry without looking for another leader."""
    if code == ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    if code in RETRIED and not (
        code == ErrorCode.CONCURRENT_TRANSACTIONS and operation is TransactionOperation.ADD
    ):
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}",
        )
    return KafkaError(code)


def _is_small(records: memoryview | None, header: BatchHeader | None, config: TopicConfig) -> bool:
    """Return whether `_validate` may be called on the event loop, with `validate_inline`."""
    return is_small_set(records) if header is None else is_small(header, config)


def _validate(
    validate: Callable[[memoryview, BatchHeader, TopicConfig, Timestamps], ValidatedBatch | None],
    records: Any,
    header: BatchHeader | None,
    partition: Partition,
    now_ms: int,
) -> ValidatedBatch | None:
    """Return the batch to append, validated; for messages of an old format, the batch that replaces
    them. Returns None if `validate` would take too long on the event loop. Raises KafkaError,
    RefusedRecords."""
    config, tp = partition.config, partition.tp
    bounds = time_bounds(config, now_ms)
    if header is None:
        return validate_messages(records, config, bounds, tp)
    try:
        return validate(records, header, config, bounds)
    except KafkaError as e:
        refused = refusal(e, records, header, config, bounds, tp)
        try:
            if refused is not None:
                raise refused from None
        finally:
            del refused  # it references this frame, which only the garbage collector would free
    return validate(records, header, config, ANY_TIME)


def error_response(request: ProduceRequest, error: KafkaError, version: int) -> ProduceResponse:
    """Return the response with the same error for every partition."""
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
