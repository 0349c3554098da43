"""Asking a transaction's coordinator before the first batch of the transaction is appended to a partition (KIP-890).

A batch that a leader took although its transaction was over would stay undecided for ever, and with it all that is behind it:
nobody would send a marker. So the leader asks first. Clients of the first protocol have added the partition themselves, and
the leader has that verified; for clients of the second the leader adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import trio

from pk.core.broker.coordinator.broker_links import BrokerLinks
from pk.core.broker.coordinator.transaction_coordinators import (
    PartitionErrors,
    TransactionCoordinators,
)
from pk.core.broker.peers import PeerLost
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

SECOND_PROTOCOL: Final = 2


class Ask(Enum):
    """What a client's request is good for, by its version."""

    VERIFY = "verify"
    """It knows no TRANSACTION_ABORTABLE: INVALID_TXN_STATE in its place."""
    VERIFY_ABORTABLE = "verify, may be told to abort"
    ADD = "add"


class AddPartitionsToTxnManager:
    """One for each broker."""

    def __init__(
        self, state: BrokerState, transactions: TransactionCoordinators, links: BrokerLinks
    ) -> None:
        """`transactions` are the coordinators of this broker, `links` lead to those of others."""
        self._state = state
        self._transactions = transactions
        self._links = links

    def close(self) -> None:
        """End the connections."""
        self._links.close()

    async def ask(
        self,
        ask: Ask,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        begin: Callable[[], None],
    ) -> PartitionErrors:
        """An error code for each partition, as the producer's client is to hear it. Where the last transaction of a client
        of the second protocol is still being ended, the coordinator is asked again, for
        `add.partitions.to.txn.retry.backoff.max.ms`. `begin` is called before each time, for a marker of that last
        transaction may have ended the verification that was begun before it."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        asked = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=ask is not Ask.ADD,
            topics=[AddPartitionsToTxnTopic(name=t, partitions=p) for t, p in topics.items()],
        )
        config = self._state.config
        patience_ms = config.add_partitions_to_txn_retry_backoff_max_ms
        until = trio.current_time() + min(patience_ms, config.request_timeout_ms) / 1000
        while True:
            begin()
            found = await self._ask(asked, partitions)
            if (
                ask is not Ask.ADD
                or ErrorCode.CONCURRENT_TRANSACTIONS not in found.values()
                or trio.current_time() >= until
            ):
                return {tp: _told(found.get(tp, ErrorCode.NONE), ask) for tp in partitions}
            await trio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)

    async def _ask(
        self, asked: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition]
    ) -> PartitionErrors:
        state, transactions = self._state, self._transactions
        number = transactions.partition_of(asked.transactional_id)
        led = state.leader_of(transactions.topic, number) if number is not None else None
        if led is None or led[0] < 0:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if led[0] == state.node_id:
            return await transactions.add_partitions(asked, SECOND_PROTOCOL)
        request = AddPartitionsToTxnRequest(transactions=[asked])
        timeout_ms = state.config.request_timeout_ms
        try:
            response: AddPartitionsToTxnResponse = await self._links.ask(
                led[0], request, timeout_ms=timeout_ms
            )
        except PeerLost:
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        except KafkaError as e:
            return dict.fromkeys(partitions, ErrorCode(e.code))
        if response.error_code:
            return dict.fromkeys(partitions, ErrorCode(response.error_code))
        return {
            TopicPartition(topic.name, p.partition_index): ErrorCode(p.partition_error_code)
            for result in response.results_by_transaction
            for topic in result.topic_results
            for p in topic.results_by_partition
        }


def _told(code: ErrorCode, ask: Ask) -> ErrorCode:
    """What a producer is told in place of what the coordinator said."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and ask is Ask.VERIFY:
        return ErrorCode.INVALID_TXN_STATE
    return code
