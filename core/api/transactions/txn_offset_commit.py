"""TxnOffsetCommit (28), versions 0–5: commits offsets as part of a transaction (KIP-98).

KIP-447 (v3: the member and its generation), KIP-890 (v4 TRANSACTION_ABORTABLE, v5: the group's
partition is added to the transaction by this request). As before a producer's batch, the broker
first sends a request to the transaction's coordinator
(core/broker/coordinator/add_partitions_to_txn_manager.py); here the partition is
that of the group in `__consumer_offsets`.
"""

from __future__ import annotations

from typing import Any, Final

from pk.core.api.groups.offset_topics import build_commit_records, merged, remove_missing
from pk.core.broker.coordinator.add_partitions_to_txn_manager import TransactionOperation
from pk.core.broker.coordinator.coordinator_shard import error_for_client
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.group.transactional_offsets import commit_records
from pk.core.log.producers import Verification
from pk.core.machine import Decision
from pk.core.values import NO_SEQUENCE, OFFSETS_TOPIC, TopicPartition, Uuid
from pk.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE: Final = 4
ADDS_SINCE: Final = 5
LOADING_SINCE: Final = 2
"""Earlier clients fail on COORDINATOR_LOAD_IN_PROGRESS, and get COORDINATOR_NOT_AVAILABLE
instead."""


async def handle(context: Context, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Filter out partitions that do not exist, verify the transaction, and submit the rest to the
    group's coordinator."""
    refused = await remove_missing(context, request, _refused, TxnOffsetCommitResponsePartition)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=merged(refused, []))
    try:
        response = await _commit(context, request)
    except KafkaError as e:
        response = _failed_all(request, e, context.api_version)
    return TxnOffsetCommitResponse(topics=merged(refused, response.topics))


async def _commit(context: Context, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    coordinator = context.broker.groups.coordinators.coordinator(request.group_id)
    verification = await _verify(context, request)
    response, broker = TxnOffsetCommitResponse(), context.broker
    metadata_max = broker.config.offset_metadata_max_bytes
    records = commit_records(request, metadata_max, broker.clock.now_ms(), response)
    prepared_records = await build_commit_records(records, response)

    def decide(
        machine: GroupMachine, _: object, now_ms: int
    ) -> Decision[Any, TxnOffsetCommitResponse]:
        producers = coordinator.partition.log.state.producers
        if verification is not None and not producers.is_verified(
            request.producer_id, request.producer_epoch, verification
        ):
            # A marker has arrived in the meantime, possibly that of the producer's last
            # transaction. The client retries, and learns whether this transaction continues.
            # INVALID_TXN_STATE would be fatal for Java's producer.
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        topics, ids = broker.image.topics, dict[str, Uuid]()
        for topic in request.topics:
            if (known := topics.get(topic.name)) is not None:
                ids[topic.name] = known.topic_id
        return machine.commit_in_transaction(request, ids, prepared_records, now_ms)

    return await coordinator.submit(decide)


async def _verify(context: Context, request: TxnOffsetCommitRequest) -> Verification | None:
    """Ask the transaction's coordinator, unless the transaction is known to have this partition.
    Raises KafkaError."""
    broker = context.broker
    coordinator = broker.groups.coordinators.coordinator(request.group_id)
    partition = coordinator.partition
    partition.check_leader()
    producers = partition.log.state.producers
    producer_id, epoch = request.producer_id, request.producer_epoch
    if not broker.config.transaction_partition_verification_enable or producers.has_open(
        producer_id, epoch
    ):
        return None
    verification: Verification | None = None

    def begin() -> None:
        nonlocal verification
        verification = producers.begin_verification(
            producer_id,
            epoch,
            NO_SEQUENCE,
            broker.clock.now_ms(),
            second_protocol=operation is TransactionOperation.ADD,
        )

    operation = TransactionOperation.VERIFY
    if context.api_version >= ADDS_SINCE:
        operation = TransactionOperation.ADD
    elif context.api_version >= ABORTABLE_SINCE:
        operation = TransactionOperation.VERIFY_ABORTABLE
    tp = TopicPartition(OFFSETS_TOPIC, partition.tp.partition)
    errors = await broker.groups.add_partitions.add_or_verify(
        operation, request.transactional_id, producer_id, epoch, [tp], begin
    )
    if errors[tp] != ErrorCode.NONE:
        raise error_for_client(KafkaError(errors[tp]))
    return verification


def _refused(
    topic: TxnOffsetCommitRequestTopic, partitions: list[TxnOffsetCommitResponsePartition]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)


def _failed(index: int, code: int) -> TxnOffsetCommitResponsePartition:
    return TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)


def _failed_all(
    request: TxnOffsetCommitRequest, error: KafkaError, version: int
) -> TxnOffsetCommitResponse:
    """Return the same error for every partition."""
    code = error.code
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partitions:
            answer.partitions.append(_failed(partition.partition_index, code))
    return response


def error_response(
    request: TxnOffsetCommitRequest, error: KafkaError, version: int
) -> TxnOffsetCommitResponse:
    return _failed_all(request, error, version)
