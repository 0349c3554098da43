"""The coordinators of consumer groups: one a partition of `__consumer_offsets` that this broker leads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from pk.core.broker.coordinator.coordinator import State
from pk.core.broker.coordinator.coordinator_runtime import CoordinatorRuntime, CoordinatorSettings
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.requests.auto_topic_creation import AutoTopicCreation
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.group.settings import ConsumerGroupSettings, GroupSettings, MigrationPolicy
from pk.core.meta.features import GROUP_VERSION
from pk.core.record.compress import Codec
from pk.core.values import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pk.core.config import BrokerConfig

logger = logging.getLogger("pk.coordinator")


class GroupCoordinators(CoordinatorRuntime[GroupMachine]):
    """The group coordinators of this broker."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        start_soon: Callable[..., None],
        random: Random,
        topic_creation: AutoTopicCreation,
    ) -> None:
        super().__init__(OFFSETS_TOPIC, self._machine, state, replicas, start_soon)
        self._random = random
        self._topic_creation = topic_creation

    def _machine(self) -> GroupMachine:
        config = self._state.config
        settings = GroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            consumer=_consumer_settings(config),
        )
        return GroupMachine(settings, self._new_id)

    def _new_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def settings(self, config: BrokerConfig) -> CoordinatorSettings:
        """See `CoordinatorRuntime.settings`."""
        return CoordinatorSettings(
            config.offsets_commit_timeout_ms,
            config.offsets_load_buffer_size,
            Codec(config.offsets_topic_compression_codec),
        )

    def check_consumer_protocol(self) -> None:
        """Raise UNSUPPORTED_VERSION where the cluster does not offer the consumer protocol: its
        `group.version` is 0, or `group.coordinator.rebalance.protocols` leaves it out."""
        state = self._state
        protocols = state.config.group_coordinator_rebalance_protocols
        if not state.image.features.get(GROUP_VERSION, 0) or "consumer" not in protocols:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    def check_loaded(self) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS where some groups are not known yet."""
        if any(c.state is State.LOADING for c in self):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def create_topic(self) -> None:
        """Have `__consumer_offsets` created, if it is not there. A refusal is logged: the client asks again."""
        try:
            refused = await self._topic_creation.create([OFFSETS_TOPIC])
        except KafkaError as e:
            logger.warning("%s was not created: %s", OFFSETS_TOPIC, e)
            return
        for _, message in refused.values():
            logger.warning("%s was not created: %s", OFFSETS_TOPIC, message)


def _consumer_settings(config: BrokerConfig) -> ConsumerGroupSettings:
    return ConsumerGroupSettings(
        session_timeout_ms=config.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        session_timeout_bounds_ms=(
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        heartbeat_interval_bounds_ms=(
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        assignment_interval_bounds_ms=(
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
        max_size=config.group_consumer_max_size,
        assignors=config.group_consumer_assignors,
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy),
    )
