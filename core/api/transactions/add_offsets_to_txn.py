"""AddOffsetsToTxn (25), versions 0–4: adds the offsets of a group to a transaction (KIP-98).

It adds the group's partition of `__consumer_offsets` to the transaction. Clients of the second
protocol (KIP-890) do not send it, because their TxnOffsetCommit adds the partition.
"""

from __future__ import annotations

from typing import Final

from pk.core.api.transactions.producer_fenced import error_in_version
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.txn.machine import ProducerKey
from pk.core.txn.transaction import FIRST_PROTOCOL
from pk.core.values import OFFSETS_TOPIC, TopicPartition
from pk.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

PRODUCER_FENCED_SINCE: Final = 2


async def handle(context: Context, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Submit the partition to the transaction's coordinator. Raises the errors of
    `TransactionMachine.add_partitions`."""
    broker = context.broker
    if OFFSETS_TOPIC not in broker.image.topics:
        await broker.groups.coordinators.create_topic()
    number = broker.groups.coordinators.partition_of(request.group_id)
    if number is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer = ProducerKey(request.producer_id, request.producer_epoch)
    partition = TopicPartition(OFFSETS_TOPIC, number)
    await broker.groups.transactions.submit(
        request.transactional_id,
        lambda machine, _, now_ms: machine.add_partitions(
            request.transactional_id, producer, [partition], FIRST_PROTOCOL, now_ms
        ),
    )
    return AddOffsetsToTxnResponse()


def error_response(
    request: AddOffsetsToTxnRequest, error: KafkaError, version: int
) -> AddOffsetsToTxnResponse:
    code = error_in_version(error.code, version, PRODUCER_FENCED_SINCE)
    return AddOffsetsToTxnResponse(error_code=code)
