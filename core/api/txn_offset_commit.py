"""TxnOffsetCommit (28), versions 0–5: a transaction stores how far its input was read (KIP-98).

KIP-447 (v3: the member and its generation), KIP-890 (v4 TRANSACTION_ABORTABLE, v5: the group's partition is added to the
transaction by this request). The coordinator of the transaction is asked first, as before a batch of a producer
(core/broker/coordinator/add_partitions_manager.py): here the partition is that of the group in `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from pk.core.api.registry import Api
from pk.core.broker.coordinator.add_partitions_manager import Ask
from pk.core.broker.coordinator.coordinator import told
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.log.producers import Verification
from pk.core.machine import Decision
from pk.core.values import NO_SEQUENCE, OFFSETS_TOPIC, TopicPartition
from pk.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE: Final = 4
ADDS_SINCE: Final = 5
LOADING_SINCE: Final = 2
"""Clients before it break on COORDINATOR_LOAD_IN_PROGRESS: they hear COORDINATOR_NOT_AVAILABLE."""


async def handle(context: Context, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Sort out what does not exist, have the transaction verified, and let the group's coordinator decide."""
    refused = _refuse_missing(context, request)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    try:
        response = await _commit(context, request)
    except KafkaError as e:
        response = _error_response(request, e, context.api_version)
    merged = {topic.name: topic for topic in refused}
    for topic in response.topics:
        same = merged.setdefault(topic.name, topic)
        if same is not topic:
            same.partitions += topic.partitions
    return TxnOffsetCommitResponse(topics=list(merged.values()))


async def _commit(context: Context, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    coordinator = context.broker.coordinators.coordinator(request.group_id)
    verification = await _verify(context, request)

    def decide(machine: GroupMachine, _: object, now_ms: int) -> Decision[Any]:
        producers = coordinator.partition.log.producers
        if verification is not None and not producers.is_verified(
            request.producer_id, request.producer_epoch, verification
        ):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)  # it ended meanwhile
        topics = context.broker.image.topics
        ids = {t.name: topics[t.name].topic_id for t in request.topics if t.name in topics}
        return machine.commit_in_transaction(request, ids, now_ms)

    answer = coordinator.submit(decide)
    return await answer if isinstance(answer, Awaitable) else answer


async def _verify(context: Context, request: TxnOffsetCommitRequest) -> Verification | None:
    """Ask the transaction's coordinator, unless the transaction is known to write here. Raises KafkaError."""
    broker = context.broker
    coordinator = broker.coordinators.coordinator(request.group_id)
    partition = coordinator.partition
    partition.check_leader()
    producers = partition.log.producers
    producer_id, epoch = request.producer_id, request.producer_epoch
    if not broker.config.transaction_partition_verification_enable or producers.has_open(
        producer_id, epoch
    ):
        return None
    verification: Verification | None = None

    def begin() -> None:
        nonlocal verification
        verification = producers.begin_verification(
            producer_id, epoch, NO_SEQUENCE, broker.clock.now_ms()
        )

    ask = Ask.VERIFY
    if context.api_version >= ADDS_SINCE:
        ask = Ask.ADD
    elif context.api_version >= ABORTABLE_SINCE:
        ask = Ask.VERIFY_ABORTABLE
    tp = TopicPartition(OFFSETS_TOPIC, partition.tp.partition)
    errors = await broker.add_partitions.ask(
        ask, request.transactional_id, producer_id, epoch, [tp], begin
    )
    if errors[tp] != ErrorCode.NONE:
        raise told(KafkaError(errors[tp]))
    return verification


def _refuse_missing(
    context: Context, request: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Take out of the request what does not exist; returns the answers to it."""
    refused: list[TxnOffsetCommitResponseTopic] = []
    image = context.broker.image
    for topic in request.topics:
        missing = [
            p for p in topic.partitions if image.partition(topic.name, p.partition_index) is None
        ]
        if missing:
            topic.partitions = [p for p in topic.partitions if p not in missing]
            refused.append(_failed(topic.name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    request.topics = [topic for topic in request.topics if topic.partitions]
    return refused


def _failed(name: str, partitions: list[Any], code: int) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
            for p in partitions
        ],
    )


def _error_response(
    request: TxnOffsetCommitRequest, error: KafkaError, version: int
) -> TxnOffsetCommitResponse:
    """Every partition with the same error."""
    code = error.code
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[_failed(topic.name, topic.partitions, code) for topic in request.topics]
    )


API = Api(
    key=28,
    versions=(0, 5),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
