"""The coordinators of consumer groups: one a partition of `__consumer_offsets` that this broker leads."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import UUID

from pk.core.broker.coordinator.coordinator import State
from pk.core.broker.coordinator.coordinator_runtime import CoordinatorRuntime
from pk.core.broker.requests.auto_topic_creation import create_missing
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.group.settings import GroupSettings
from pk.core.values import INTERNAL_TOPICS, OFFSETS_TOPIC

if TYPE_CHECKING:
    from pk.core.broker.broker import Broker
    from pk.core.meta.image import Changes, MetadataImage

logger = logging.getLogger("pk.coordinator")


class GroupCoordinators(CoordinatorRuntime[GroupMachine]):
    """The group coordinators of this broker."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(OFFSETS_TOPIC, self._machine, broker)

    def _machine(self) -> GroupMachine:
        config = self._broker.config
        settings = GroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )
        return GroupMachine(settings, self._new_id)

    def _new_id(self) -> str:
        return str(UUID(int=self._broker.random.getrandbits(128), version=4))

    def apply(self, image: MetadataImage, found: Changes) -> None:
        """Follow what changed; offsets of deleted topics go too."""
        super().apply(image, found)
        gone = [(t.name, t.topic_id) for t in found.topics_deleted if t.name not in INTERNAL_TOPICS]
        if gone:
            for coordinator in self:
                coordinator.when_active(
                    lambda machine, now_ms: machine.topics_deleted(gone, now_ms)
                )

    def check_loaded(self) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS where some groups are not known yet."""
        if any(c.state is State.LOADING for c in self):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def create_topic(self) -> None:
        """Have `__consumer_offsets` created, if it is not there. A refusal is logged: the client asks again."""
        try:
            refused = await create_missing(self._broker, [OFFSETS_TOPIC])
        except KafkaError as e:
            logger.warning("%s was not created: %s", OFFSETS_TOPIC, e)
            return
        for _, message in refused.values():
            logger.warning("%s was not created: %s", OFFSETS_TOPIC, message)
