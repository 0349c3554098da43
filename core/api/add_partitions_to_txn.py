"""AddPartitionsToTxn (24), versions 0–5: a transaction is about to write to these partitions (KIP-98).

Versions 0–3 are a client's and name one transaction. Versions 4 and 5 are for brokers, which verify or add the partitions of
several transactions at once (KIP-890).
"""

from __future__ import annotations

from typing import Final

from pk.core.api.registry import Api
from pk.core.broker.coordinator.transaction_coordinators import PartitionErrors
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

SEVERAL_SINCE: Final = 4
PRODUCER_FENCED_SINCE: Final = 2
"""Older clients hear INVALID_PRODUCER_EPOCH."""

FIRST_PROTOCOL, SECOND_PROTOCOL = 0, 2


async def handle(
    context: Context, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Ask the coordinator of every transaction."""
    transactions = context.broker.transactions
    if context.api_version < SEVERAL_SINCE:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        errors = await transactions.add_partitions(asked, FIRST_PROTOCOL)
        topics = _results(asked.topics, errors, context.api_version)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    response = AddPartitionsToTxnResponse()
    for asked in request.transactions:
        errors = await transactions.add_partitions(asked, SECOND_PROTOCOL)
        response.results_by_transaction.append(
            AddPartitionsToTxnResult(
                transactional_id=asked.transactional_id,
                topic_results=_results(asked.topics, errors, context.api_version),
            )
        )
    return response


def _results(
    topics: list[AddPartitionsToTxnTopic], errors: PartitionErrors, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    def code_of(tp: TopicPartition) -> int:
        code = errors.get(tp, ErrorCode.NONE)
        if code == ErrorCode.PRODUCER_FENCED and version < PRODUCER_FENCED_SINCE:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return code

    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=p, partition_error_code=code_of(TopicPartition(topic.name, p))
                )
                for p in topic.partitions
            ],
        )
        for topic in topics
    ]


def _error_response(
    request: AddPartitionsToTxnRequest, error: KafkaError, version: int
) -> AddPartitionsToTxnResponse:
    """Every partition with the same error, or the whole of it for a broker."""
    if version >= SEVERAL_SINCE:
        return AddPartitionsToTxnResponse(error_code=error.code)
    errors = {
        TopicPartition(t.name, p): ErrorCode(error.code)
        for t in request.v3_and_below_topics
        for p in t.partitions
    }
    topics = _results(request.v3_and_below_topics, errors, version)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


API = Api(
    key=24,
    versions=(0, 5),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
