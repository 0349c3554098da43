"""The coordinators of transactions: one for each partition of `__transaction_state` that this
broker leads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pk.core.broker.coordinator.coordinator_runtime import CoordinatorRuntime, CoordinatorSettings
from pk.core.broker.coordinator.coordinator_shard import CoordinatorShard, Reply, State
from pk.core.broker.coordinator.marker_sender import MarkerSender
from pk.core.broker.coordinator.producer_ids import ProducerIds
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.requests.auto_topic_creation import AutoTopicCreation
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision, Effect
from pk.core.record.compress import Codec
from pk.core.txn.machine import (
    NeedsProducerId,
    ProducerKey,
    SendMarkers,
    TransactionMachine,
    TransactionSettings,
)
from pk.core.values import TRANSACTIONS_TOPIC, TopicPartition
from pk.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction

if TYPE_CHECKING:
    from pk.core.config import BrokerConfig

logger = logging.getLogger("pk.transactions")

COMMIT_TIMEOUT_MS = 5000
"""How long a reply may wait until its record is safe, in ms: as long as Kafka's
(`offsets.commit.timeout.ms` has the same default)."""

PartitionErrors = dict[TopicPartition, ErrorCode]


class TransactionCoordinators(CoordinatorRuntime[TransactionMachine]):
    """The transaction coordinators of this broker."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        start_soon: Callable[..., None],
        sender: MarkerSender,
        producer_ids: ProducerIds,
        topic_creation: AutoTopicCreation,
    ) -> None:
        super().__init__(TRANSACTIONS_TOPIC, self._machine, state, replicas, start_soon)
        self._sender = sender
        self._producer_ids = producer_ids
        self._topic_creation = topic_creation

    def _machine(self) -> TransactionMachine:
        config = self._state.config
        time_outs_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        expired_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        return TransactionMachine(
            TransactionSettings(
                max_timeout_ms=config.transaction_max_timeout_ms,
                id_expiration_ms=config.transactional_id_expiration_ms,
                time_out_check_interval_ms=time_outs_ms,
                expiry_check_interval_ms=expired_ms,
            )
        )

    def settings(self, config: BrokerConfig) -> CoordinatorSettings:
        """See `CoordinatorRuntime.settings`."""
        return CoordinatorSettings(
            COMMIT_TIMEOUT_MS, config.transaction_state_log_load_buffer_size, Codec.NONE
        )

    def carry_out(self, coordinator: CoordinatorShard[Any], effect: Effect) -> None:
        """See `CoordinatorRuntime.carry_out`."""
        assert isinstance(effect, SendMarkers)
        self._sender.send(coordinator, effect)

    async def submit_with_id(
        self,
        transactional_id: str,
        decide: Callable[
            [TransactionMachine, int | None, int], Decision[Any, Reply | NeedsProducerId]
        ],
    ) -> Reply:
        """Return the reply of `decide(machine, fresh_id, now_ms)`, which may need an unused
        producer id. Raises KafkaError."""
        answer = await self.submit(
            transactional_id, lambda machine, _, now_ms: decide(machine, None, now_ms)
        )
        if isinstance(answer, NeedsProducerId):
            fresh_id = await self._producer_ids.next()
            answer = await self.submit(
                transactional_id, lambda machine, _, now_ms: decide(machine, fresh_id, now_ms)
            )
            assert not isinstance(answer, NeedsProducerId)
        return answer

    async def add_partitions(
        self, transaction: AddPartitionsToTxnTransaction, client_version: int
    ) -> PartitionErrors:
        """Add partitions to one transaction, or verify that they are in it. Returns an error code
        for each. If one of them does not exist, none is added."""
        image = self._state.image
        partitions: list[TopicPartition] = []
        missing: set[TopicPartition] = set()
        named = ((t.name, p) for t in transaction.topics for p in t.partitions)
        for topic, number in named:
            await let_others_run()
            tp = TopicPartition(topic, number)
            partitions.append(tp)
            if image.partition(topic, number) is None:
                missing.add(tp)
        if missing:
            return {
                tp: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if tp in missing
                else ErrorCode.OPERATION_NOT_ATTEMPTED
                for tp in partitions
            }
        transactional_id = transaction.transactional_id
        producer = ProducerKey(transaction.producer_id, transaction.producer_epoch)
        try:
            if transaction.verify_only:
                return await self.submit(
                    transactional_id,
                    lambda machine, _, now_ms: machine.verify_partitions(
                        transactional_id, producer, partitions, now_ms
                    ),
                )
            await self.submit(
                transactional_id,
                lambda machine, _, now_ms: machine.add_partitions(
                    transactional_id, producer, partitions, client_version, now_ms
                ),
            )
        except KafkaError as e:
            code = ErrorCode(e.code)
        else:
            code = ErrorCode.NONE
        return {tp: code for tp in partitions}

    def check_loaded(self) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if a coordinator has not loaded its transactions
        yet."""
        if any(c.state is State.LOADING for c in self):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def stop(self) -> None:
        """Close all coordinators, and send no more markers."""
        await super().stop()
        self._sender.close()

    async def create_topic(self) -> None:
        """Create `__transaction_state` if it is missing. A refusal is logged; the client
        retries."""
        try:
            refused = await self._topic_creation.create([TRANSACTIONS_TOPIC])
        except KafkaError as e:
            logger.warning("%s was not created: %s", TRANSACTIONS_TOPIC, e)
            return
        for _, message in refused.values():
            logger.warning("%s was not created: %s", TRANSACTIONS_TOPIC, message)
