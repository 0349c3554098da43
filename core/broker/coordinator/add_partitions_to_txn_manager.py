"""Asks a transaction's coordinator before the first batch of the transaction is appended to a
partition (KIP-890).

If a leader accepted a batch after the end of its transaction, the batch and everything after it
would stay undecided forever: no coordinator would send a marker. Therefore the leader asks the
coordinator first. Clients of the first protocol have added the partition themselves, and the leader
only verifies that; for clients of the second protocol the leader adds it.

Each broker gets one request at a time. Transactions that arrive before its response share the next
request, so the more transactions there are, the more of them share a request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum

import trio

from pk.core.broker.coordinator.broker_links import BrokerLinks
from pk.core.broker.coordinator.transaction_coordinators import (
    PartitionErrors,
    TransactionCoordinators,
)
from pk.core.broker.peers import PeerLost
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError
from pk.core.txn.transaction import SECOND_PROTOCOL
from pk.core.values import TopicPartition
from pk.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


class TransactionOperation(Enum):
    """The kind of verification that a client's request allows, by its version."""

    VERIFY = "verify"
    """The client does not know TRANSACTION_ABORTABLE and gets INVALID_TXN_STATE instead."""
    VERIFY_ABORTABLE = "verify, may have to abort"
    ADD = "add"


class _PendingVerification:
    """A question about one transaction, and the coordinator's result."""

    def __init__(
        self, transaction: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition]
    ) -> None:
        self.transaction = transaction
        self.errors: PartitionErrors = {}
        self.answered = trio.Event()
        self._partitions = partitions

    def answer(self, errors: PartitionErrors | ErrorCode) -> None:
        """Set an error for each partition, or one error for all."""
        if isinstance(errors, ErrorCode):
            errors = dict.fromkeys(self._partitions, errors)
        self.errors = errors
        self.answered.set()


class AddPartitionsToTxnManager:
    """Verifies transactions with their coordinators. One for each broker."""

    def __init__(
        self,
        state: BrokerState,
        transactions: TransactionCoordinators,
        links: BrokerLinks,
        start_soon: Callable[..., None],
    ) -> None:
        """`transactions` are the coordinators of this broker, `links` connect to other brokers.
        `start_soon` starts a background task."""
        self._state = state
        self._transactions = transactions
        self._links = links
        self._start_soon = start_soon
        self._pending: dict[int, deque[_PendingVerification]] = {}
        """The questions that wait for each broker's current request; a broker without a request has
        no entry."""

    def close(self) -> None:
        """Close the connections."""
        self._links.close()

    async def add_or_verify(
        self,
        operation: TransactionOperation,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        begin: Callable[[], None],
    ) -> PartitionErrors:
        """Return an error code for each partition, as the producer's client must see it. If the
        last transaction of a client of the second protocol is still ending, the request is repeated
        for up to `add.partitions.to.txn.retry.backoff.max.ms`. `begin` is called before each
        request, because a marker of that last transaction may have ended the previous
        verification."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=operation is not TransactionOperation.ADD,
            topics=[AddPartitionsToTxnTopic(name=t, partitions=p) for t, p in topics.items()],
        )
        config = self._state.config
        retries_ms = config.add_partitions_to_txn_retry_backoff_max_ms
        deadline = trio.current_time() + min(retries_ms, config.request_timeout_ms) / 1000
        while True:
            begin()
            errors = await self._add_or_verify_once(transaction, partitions)
            if (
                operation is not TransactionOperation.ADD
                or ErrorCode.CONCURRENT_TRANSACTIONS not in errors.values()
                or trio.current_time() >= deadline
            ):
                return {
                    tp: _error_for_client(errors.get(tp, ErrorCode.NONE), operation)
                    for tp in partitions
                }
            await trio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)

    async def _add_or_verify_once(
        self, transaction: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition]
    ) -> PartitionErrors:
        state, transactions = self._state, self._transactions
        number = transactions.partition_of(transaction.transactional_id)
        leader = state.leader_of(transactions.topic, number) if number is not None else None
        if leader is None or leader[0] < 0:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if leader[0] == state.node_id:
            return await transactions.add_partitions(transaction, SECOND_PROTOCOL)
        verification = _PendingVerification(transaction, partitions)
        pending = self._pending.get(leader[0])
        if pending is None:
            pending = self._pending[leader[0]] = deque()
            self._start_soon(self._send_pending, leader[0], pending)
        pending.append(verification)
        await verification.answered.wait()
        return verification.errors

    async def _send_pending(self, node: int, pending: deque[_PendingVerification]) -> None:
        """Send another broker one request after the other, until no question is left."""
        try:
            while pending:
                verifications: dict[str, _PendingVerification] = {}
                # A response identifies transactions by their ids, so a second question about one
                # waits for the next request.
                for _ in range(len(pending)):
                    one = pending.popleft()
                    if verifications.setdefault(one.transaction.transactional_id, one) is not one:
                        pending.append(one)
                try:
                    await self._send_request(node, verifications)
                finally:
                    for one in verifications.values():
                        if not one.answered.is_set():
                            one.answer(ErrorCode.NETWORK_EXCEPTION)
        finally:
            del self._pending[node]

    async def _send_request(
        self, node: int, verifications: dict[str, _PendingVerification]
    ) -> None:
        request = AddPartitionsToTxnRequest(
            transactions=[one.transaction for one in verifications.values()]
        )
        timeout_ms = self._state.config.request_timeout_ms
        try:
            response: AddPartitionsToTxnResponse = await self._links.request(
                node, request, timeout_ms=timeout_ms
            )
            if response.error_code:
                raise KafkaError(response.error_code)
        except (PeerLost, KafkaError) as e:
            code = ErrorCode(e.code) if isinstance(e, KafkaError) else ErrorCode.NETWORK_EXCEPTION
            for verification in verifications.values():
                verification.answer(code)
            return
        for result in response.results_by_transaction:
            verification = verifications.get(result.transactional_id)
            if verification is not None:
                verification.answer(
                    {
                        TopicPartition(topic.name, p.partition_index): ErrorCode(
                            p.partition_error_code
                        )
                        for topic in result.topic_results
                        for p in topic.results_by_partition
                    }
                )


def _error_for_client(code: ErrorCode, operation: TransactionOperation) -> ErrorCode:
    """Return the error that a producer gets for the coordinator's error `code`."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and operation is TransactionOperation.VERIFY:
        return ErrorCode.INVALID_TXN_STATE
    return code
