"""The coordinators of groups of every type: one for each partition of `__consumer_offsets` that
this broker leads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pk.core.broker.coordinator.coordinator_runtime import CoordinatorRuntime, CoordinatorSettings
from pk.core.broker.coordinator.coordinator_shard import CoordinatorShard, State
from pk.core.broker.coordinator.share_state_client import ShareStateClient
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.requests.auto_topic_creation import AutoTopicCreation
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.share.effects import InitializeShareState
from pk.core.group.streams.internal_topics import CreateInternalTopics
from pk.core.machine import Effect
from pk.core.meta.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from pk.core.record.compress import Codec
from pk.core.values import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pk.core.config import BrokerConfig
    from pk.core.group.any_group import GroupType
    from pk.core.group.machine import GroupMachine

logger = logging.getLogger("pk.coordinator")

FEATURES: Final = {
    "consumer": GROUP_VERSION,
    "share": SHARE_VERSION,
    "streams": STREAMS_VERSION,
}
"""Type of group → the feature that enables it."""


class GroupCoordinators(CoordinatorRuntime["GroupMachine"]):
    """The group coordinators of this broker."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        start_soon: Callable[..., None],
        random: Random,
        topic_creation: AutoTopicCreation,
        share_state_client: ShareStateClient,
    ) -> None:
        super().__init__(OFFSETS_TOPIC, self._machine, state, replicas, start_soon)
        self._share_state_client = share_state_client
        self._random = random
        self._topic_creation = topic_creation

    def _machine(self) -> GroupMachine:
        from pk.core.broker.coordinator.group_machine import group_machine

        return group_machine(self._state.config, self._new_id)

    def _new_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def settings(self, config: BrokerConfig) -> CoordinatorSettings:
        """See `CoordinatorRuntime.settings`."""
        return CoordinatorSettings(
            config.offsets_commit_timeout_ms,
            config.offsets_load_buffer_size,
            Codec(config.offsets_topic_compression_codec),
        )

    def check_protocol(self, group_type: GroupType) -> None:
        """Raise UNSUPPORTED_VERSION if the cluster does not offer groups of this type: its feature
        has level 0, or `group.coordinator.rebalance.protocols` omits the protocol. (Kafka has no
        such protocol for share groups.)"""
        state = self._state
        protocols = state.config.group_coordinator_rebalance_protocols
        is_offered = group_type in protocols or group_type == "share"
        if not is_offered or not state.image.features.get(FEATURES[group_type], 0):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    def carry_out(self, coordinator: CoordinatorShard[Any], effect: Effect) -> None:
        """See `CoordinatorRuntime.carry_out`."""
        if isinstance(effect, CreateInternalTopics):
            self._start_soon(self._create_internal_topics, coordinator, effect)
            return
        assert isinstance(effect, InitializeShareState)
        self._start_soon(self._initialize, coordinator, effect)

    async def _create_internal_topics(
        self, coordinator: CoordinatorShard[GroupMachine], effect: CreateInternalTopics
    ) -> None:
        """Create internal topics of a streams group, and report the result to the coordinator."""
        try:
            found = await self._topic_creation.create_as(effect.topics)
            refused = {name: message for name, (_, message) in found.items()}
        except KafkaError as e:
            refused = {topic.name: str(e) for topic in effect.topics}
        for name, message in refused.items():
            logger.warning("%s of group %s was not created: %s", name, effect.group_id, message)
        coordinator.when_active(
            lambda machine, now_ms: machine.streams_topics_created(effect, refused, now_ms)
        )

    async def _initialize(
        self, coordinator: CoordinatorShard[GroupMachine], effect: InitializeShareState
    ) -> None:
        done, failed = await self._share_state_client.initialize(effect)
        coordinator.when_active(
            lambda machine, now_ms: machine.share_initialized(effect.group_id, done, failed, now_ms)
        )

    def has_share_group(self, group_id: str) -> bool:
        """Return whether this broker coordinates a share group with this name."""
        try:
            coordinator = self.coordinator(group_id)
        except KafkaError:
            return False
        group = coordinator.machine.groups.get(group_id)
        return coordinator.is_active and group is not None and group.type == "share"

    def check_loaded(self) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if a coordinator has not loaded its groups yet."""
        if any(c.state is State.LOADING for c in self):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def create_topic(self) -> None:
        """Create `__consumer_offsets` if it is missing. A refusal is logged; the client retries."""
        try:
            refused = await self._topic_creation.create([OFFSETS_TOPIC])
        except KafkaError as e:
            logger.warning("%s was not created: %s", OFFSETS_TOPIC, e)
            return
        for _, message in refused.values():
            logger.warning("%s was not created: %s", OFFSETS_TOPIC, message)
