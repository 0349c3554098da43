"""The share coordinators: one for each partition of `__share_group_state` that this broker leads
(KIP-932).

Other brokers send them five kinds of requests, each of which may list many share partitions. Every
share partition has its own coordinator, found by `coordinator_key`, and its own error in the
response.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pk.core.broker.coordinator.coordinator_runtime import CoordinatorRuntime, CoordinatorSettings
from pk.core.broker.coordinator.coordinator_shard import CoordinatorShard
from pk.core.broker.coordinator.share_state_requests import (
    DELETE,
    INITIALIZE,
    READ,
    READ_SUMMARY,
    WRITE,
    Fields,
    StateRequest,
)
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.requests.auto_topic_creation import AutoTopicCreation
from pk.core.broker.state import BrokerState
from pk.core.errors import KafkaError
from pk.core.log.failures import StorageError
from pk.core.machine import Decision
from pk.core.record.compress import Codec
from pk.core.share.batches import StateBatch
from pk.core.share.coordinator import (
    PruneLog,
    ReadState,
    ShareCoordinatorMachine,
    ShareCoordinatorSettings,
    StateSummary,
)
from pk.core.share.records import Record, ShareKey
from pk.core.values import SHARE_STATE_TOPIC
from pk.core.wire.messages import delete_share_group_state as deleting
from pk.core.wire.messages import initialize_share_group_state as initializing
from pk.core.wire.messages import read_share_group_state as reading
from pk.core.wire.messages import read_share_group_state_summary as summarizing
from pk.core.wire.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from pk.core.config import BrokerConfig

logger = logging.getLogger("pk.coordinator")

Decide = Callable[[ShareCoordinatorMachine, ShareKey, Any, int], Decision[Record, Any]]
"""(machine, share partition, its part of the request, now in ms) → decision."""


class ShareCoordinators(CoordinatorRuntime[ShareCoordinatorMachine]):
    """The share coordinators of this broker."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        start_soon: Callable[..., None],
        topic_creation: AutoTopicCreation,
    ) -> None:
        super().__init__(SHARE_STATE_TOPIC, self._machine, state, replicas, start_soon)
        self._topic_creation = topic_creation

    def _machine(self) -> ShareCoordinatorMachine:
        config = self._state.config
        return ShareCoordinatorMachine(
            ShareCoordinatorSettings(
                updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot
            )
        )

    def settings(self, config: BrokerConfig) -> CoordinatorSettings:
        """See `CoordinatorRuntime.settings`."""
        return CoordinatorSettings(
            config.share_coordinator_write_timeout_ms,
            config.share_coordinator_load_buffer_size,
            Codec(config.share_coordinator_state_topic_compression_codec),
        )

    def carry_out(self, coordinator: CoordinatorShard[Any], effect: Any) -> None:
        """Delete the unneeded beginning of the log (see `CoordinatorRuntime.carry_out`)."""
        assert isinstance(effect, PruneLog)
        partition = coordinator.partition
        if not partition.leads or partition.offline is not None:
            return
        try:
            partition.delete_before(min(effect.before_offset, partition.high_watermark))
        except StorageError as e:
            logger.warning("%s: could not delete unneeded share state: %s", partition.tp, e)

    async def create_topic(self) -> None:
        """Create `__share_group_state` if it is missing. A refusal is logged; the sender
        retries."""
        try:
            refused = await self._topic_creation.create([SHARE_STATE_TOPIC])
        except KafkaError as e:
            logger.warning("%s was not created: %s", SHARE_STATE_TOPIC, e)
            return
        for _, message in refused.values():
            logger.warning("%s was not created: %s", SHARE_STATE_TOPIC, message)

    # --- the five requests ---

    async def initialize(
        self, request: initializing.InitializeShareGroupStateRequest
    ) -> initializing.InitializeShareGroupStateResponse:
        """Handle InitializeShareGroupState 0."""
        return await self._answer(
            INITIALIZE,
            request,
            lambda machine, key, requested, now_ms: machine.initialize(
                key, requested.state_epoch, requested.start_offset, now_ms
            ),
        )

    async def read(
        self, request: reading.ReadShareGroupStateRequest
    ) -> reading.ReadShareGroupStateResponse:
        """Handle ReadShareGroupState 0."""
        return await self._answer(
            READ,
            request,
            lambda machine, key, requested, now_ms: machine.read(
                key, requested.leader_epoch, now_ms
            ),
            _read_fields,
        )

    async def write(
        self, request: writing.WriteShareGroupStateRequest
    ) -> writing.WriteShareGroupStateResponse:
        """Handle WriteShareGroupState 0–1."""
        return await self._answer(
            WRITE,
            request,
            lambda machine, key, requested, now_ms: machine.write(
                key,
                requested.state_epoch,
                requested.leader_epoch,
                requested.start_offset,
                requested.delivery_complete_count,
                (
                    StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                    for b in requested.state_batches
                ),
                now_ms,
            ),
        )

    async def delete(
        self, request: deleting.DeleteShareGroupStateRequest
    ) -> deleting.DeleteShareGroupStateResponse:
        """Handle DeleteShareGroupState 0."""
        return await self._answer(
            DELETE, request, lambda machine, key, _, now_ms: machine.delete(key, now_ms)
        )

    async def read_summary(
        self, request: summarizing.ReadShareGroupStateSummaryRequest
    ) -> summarizing.ReadShareGroupStateSummaryResponse:
        """Handle ReadShareGroupStateSummary 0–1."""
        return await self._answer(
            READ_SUMMARY,
            request,
            lambda machine, key, _, now_ms: machine.read_summary(key, now_ms),
            StateSummary._asdict,
        )

    async def _answer(
        self,
        kind: StateRequest,
        request: Any,
        decide: Decide,
        fields_of: Callable[[Any], Fields] = lambda _: {},
    ) -> Any:
        """Submit each share partition to its coordinator. `fields_of` returns the response's fields
        for the coordinator's reply."""

        async def answer_one(key: ShareKey, requested: Any) -> Fields:
            try:
                reply = await self.submit(
                    key.coordinator_key,
                    lambda machine, _, now_ms: decide(machine, key, requested, now_ms),
                )
            except KafkaError as e:
                return {"error_code": e.code, "error_message": e.message or None}
            return fields_of(reply)

        return await kind.build_response(request, answer_one)


def _read_fields(found: ReadState) -> Fields:
    return {
        "state_epoch": found.state_epoch,
        "start_offset": found.start_offset,
        "state_batches": [reading.StateBatch(**batch._asdict()) for batch in found.batches],
    }
