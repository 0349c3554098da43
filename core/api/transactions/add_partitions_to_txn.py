"""AddPartitionsToTxn (24), versions 0–5: adds partitions to a transaction before it writes to them
(KIP-98).

Versions 0–3 are for clients, with one transaction. Versions 4 and 5 are for brokers, which verify
or add the partitions of several transactions at once (KIP-890).
"""

from __future__ import annotations

from typing import Final

import trio

from pk.core.api.authorization import allows, check, is_on
from pk.core.api.transactions.producer_fenced import error_in_version
from pk.core.auth.acls import CLUSTER_NAME, Operation, ResourceType
from pk.core.broker.coordinator.transaction_coordinators import PartitionErrors
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.txn.transaction import FIRST_PROTOCOL, SECOND_PROTOCOL
from pk.core.values import INTERNAL_TOPICS, TopicPartition
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

TASKS_MAX: Final = 64
"""The number of transactions of one request that are processed at the same time: each takes a task,
and a large request may have millions."""


async def handle(
    context: Context, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Submit each transaction to its coordinator."""
    transactions = context.broker.groups.transactions
    if context.api_version < SEVERAL_SINCE:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        id_ = transaction.transactional_id
        check(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, id_)
        denied = await _denied(context, transaction.topics)
        errors = denied or await transactions.add_partitions(transaction, FIRST_PROTOCOL)
        topics = await _results(transaction.topics, errors, context.api_version)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    check(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    results: list[AddPartitionsToTxnResult] = []
    if len(request.transactions) == 1:
        (transaction,) = request.transactions
        results.append(AddPartitionsToTxnResult(transactional_id=transaction.transactional_id))
        await _add_or_verify(context, transaction, results[0])
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    for start in range(0, len(request.transactions), TASKS_MAX):
        # Each transaction may wait for its coordinator's log to be replicated.
        async with trio.open_nursery() as nursery:
            for transaction in request.transactions[start : start + TASKS_MAX]:
                result = AddPartitionsToTxnResult(transactional_id=transaction.transactional_id)
                results.append(result)
                nursery.start_soon(_add_or_verify, context, transaction, result)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _add_or_verify(
    context: Context, transaction: AddPartitionsToTxnTransaction, result: AddPartitionsToTxnResult
) -> None:
    errors = await context.broker.groups.transactions.add_partitions(transaction, SECOND_PROTOCOL)
    result.topic_results = await _results(transaction.topics, errors, context.api_version)


async def _denied(context: Context, topics: list[AddPartitionsToTxnTopic]) -> PartitionErrors:
    """Return an error for every partition if the producer may not write to one of them, since then
    none is added; otherwise return no errors. Clients may not write to an internal topic."""
    is_guarded = is_on(context)
    denied: set[str] = set()
    for topic in topics:
        if topic.name in INTERNAL_TOPICS or (
            is_guarded and not allows(context, Operation.WRITE, ResourceType.TOPIC, topic.name)
        ):
            denied.add(topic.name)
        await let_others_run()
    errors: PartitionErrors = {}
    if not denied:
        return errors
    image = context.broker.image
    for topic in topics:
        for index in topic.partitions:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            if topic.name in denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image.partition(topic.name, index) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            errors[TopicPartition(topic.name, index)] = code
            await let_others_run()
    return errors


async def _results(
    topics: list[AddPartitionsToTxnTopic], errors: PartitionErrors, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    results: list[AddPartitionsToTxnTopicResult] = []
    for topic in topics:
        results.append(_result(topic, errors, version))
        await let_others_run()
    return results


def _result(
    topic: AddPartitionsToTxnTopic, errors: PartitionErrors, version: int
) -> AddPartitionsToTxnTopicResult:
    result = AddPartitionsToTxnTopicResult(name=topic.name)
    for p in topic.partitions:
        error = errors.get(TopicPartition(topic.name, p), ErrorCode.NONE)
        code = error_in_version(error, version, PRODUCER_FENCED_SINCE)
        result.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=code)
        )
    return result


def error_response(
    request: AddPartitionsToTxnRequest, error: KafkaError, version: int
) -> AddPartitionsToTxnResponse:
    """Return the same error for every partition; for a broker, the error of the whole request."""
    if version >= SEVERAL_SINCE:
        return AddPartitionsToTxnResponse(error_code=error.code)
    errors = {
        TopicPartition(t.name, p): ErrorCode(error.code)
        for t in request.v3_and_below_topics
        for p in t.partitions
    }
    topics = [_result(topic, errors, version) for topic in request.v3_and_below_topics]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
