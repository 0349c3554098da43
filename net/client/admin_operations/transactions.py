"""Admin requests about transactions (KIP-664): list and describe them, and end hanging ones."""

from collections.abc import Iterable
from typing import NamedTuple

from pk.core.errors import ErrorCode
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin_operations.base import AdminBase, Failure, by_topic, check, failure
from pk.net.client.answers import Answers
from pk.net.client.connection import Connection


class OpenTransaction(NamedTuple):
    """An open transaction in a partition, with the producer's state at its leader
    (`Admin.describe_producers`)."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """The epoch of the coordinator that wrote the producer's last marker to the partition; -1 if
    there was none."""


class TransactionOperations(AdminBase):
    """Operations on transactional ids, and on transactions left open in partitions."""

    async def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = ()
    ) -> tuple[tuple[r.TransactionListing, ...], dict[int, Failure]]:
        """List the transactional ids of all brokers. The result also has the errors of the brokers
        that did not answer (KIP-664)."""
        from pk.core.wire.messages.list_transactions import ListTransactionsRequest

        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids)
        )

        async def ask(connection: Connection) -> list[r.TransactionListing]:
            response = await connection.request(request)
            check(response, "ListTransactions")
            return [
                r.TransactionListing(
                    t.transactional_id, t.producer_id, t.transaction_state, connection.node.node_id
                )
                for t in response.transaction_states
            ]

        answers = await self._by_broker(None, ask)
        errors = answers.errors
        listed = [t for a in answers.ok.values() for t in a]
        return tuple(sorted(listed, key=lambda t: t.transactional_id)), errors

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> Answers[str, r.TransactionDescription]:
        """Describe transactional ids (KIP-664)."""
        from pk.core.wire.messages.describe_transactions import DescribeTransactionsRequest

        async def ask(
            connection: Connection, ids: list[str]
        ) -> Answers[str, r.TransactionDescription]:
            response = await connection.request(DescribeTransactionsRequest(transactional_ids=ids))
            return Answers(
                (
                    t.transactional_id,
                    failure(t.error_code)
                    or r.TransactionDescription(
                        connection.node.node_id,
                        t.transaction_state,
                        t.producer_id,
                        t.producer_epoch,
                        t.transaction_timeout_ms,
                        t.transaction_start_time_ms,
                        tuple(TopicPartition(d.topic, p) for d in t.topics for p in d.partitions),
                    ),
                )
                for t in response.transaction_states
            )

        return await self._by_coordinator(transactional_ids, ask, r.CoordinatorType.TRANSACTION)

    async def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> Answers[str, tuple[int, int]]:
        """Fence the producers of transactional ids and abort their open transactions.

        Returns the new (producer id, epoch) of each (InitProducerId, KIP-360).
        """
        from pk.core.wire.messages.init_producer_id import InitProducerIdRequest

        async def ask(connection: Connection, ids: list[str]) -> Answers[str, tuple[int, int]]:
            answers: Answers[str, tuple[int, int]] = Answers()
            for name in ids:
                request = InitProducerIdRequest(
                    transactional_id=name, transaction_timeout_ms=_FENCING_TIMEOUT_MS
                )
                response = await connection.request(request, high=5)
                fenced = (response.producer_id, response.producer_epoch)
                answers.add(name, failure(response.error_code) or fenced)
            return answers

        return await self._by_coordinator(
            transactional_ids, ask, r.CoordinatorType.TRANSACTION, changes=True
        )

    async def abort_transactions(
        self, transactions: Iterable[OpenTransaction]
    ) -> Answers[TopicPartition, None]:
        """Write the missing abort marker of a hanging transaction to its partition
        (WriteTxnMarkers), one per partition.

        The coordinator is not involved, so this is only for transactions that the coordinator does
        not know. The leader refuses an epoch of the producer or of the coordinator that is older
        than the one it knows (INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED).
        """
        from pk.core.wire.messages.write_txn_markers import (
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
        )

        hanging = {each.partition: each for each in transactions}

        async def ask(
            connection: Connection, asked: list[TopicPartition]
        ) -> Answers[TopicPartition, None]:
            answers: Answers[TopicPartition, None] = Answers()
            for partition in asked:
                each = hanging[partition]
                topics = by_topic([partition])
                marker = WritableTxnMarker(
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    transaction_result=False,
                    coordinator_epoch=max(each.coordinator_epoch, 0),
                    topics=[
                        WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                        for name, indexes in topics.items()
                    ],
                )
                response = await connection.request(WriteTxnMarkersRequest(markers=[marker]))
                codes = [
                    p.error_code for m in response.markers for t in m.topics for p in t.partitions
                ]
                code = codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR
                answers.add(partition, failure(code))
            return answers

        return await self._by_leader(hanging, ask, changes=True)


_FENCING_TIMEOUT_MS = 60_000
"""The transaction.timeout.ms that InitProducerId requires; nothing is written with the id it
returns."""
