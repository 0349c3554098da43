"""Duties of the active controller in addition to liveness: it returns leadership to the preferred
replicas, and elects leaders for partitions without one after a config allows it.

Every `leader.imbalance.check.interval.seconds`, with `auto.leader.rebalance.enable`, partitions
whose preferred replica is in sync but does not lead are moved to it. After a change of
`unclean.leader.election.enable`, for a topic, a broker or all brokers, partitions without a leader
are checked again at once. The same happens when a controller is elected, because the previous one
may have died after the change and before the check.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from pk.core.broker.controller.active_controller import ActiveController, OffLoopDecision
from pk.core.broker.state import BrokerState
from pk.core.errors import KafkaError
from pk.core.meta.elections import elect_offline, rebalance_leaders
from pk.core.meta.image import NO_CONFIGS, ConfigResource, Configs, MetadataImage, changed_configs

logger = logging.getLogger("pk.controller")

UNCLEAN: Final = "unclean.leader.election.enable"


class LeaderBalance:
    """Balances leadership. One per controller; `run` is one of its duties."""

    def __init__(self, controller: ActiveController, state: BrokerState) -> None:
        self._controller = controller
        self._state = state
        self._changed = trio.Event()
        controller.commit_listeners.append(self._on_commit)

    async def run(self) -> None:
        """Balance leadership until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._elect_offline)
            await self._rebalance()

    async def _rebalance(self) -> None:
        while True:
            config = self._state.config
            await trio.sleep(config.leader_imbalance_check_interval_seconds)
            more = self._state.config.auto_leader_rebalance_enable
            while more:
                more = await self._balance_once()

    async def _balance_once(self) -> bool:
        """Make one decision. Returns whether more partitions must be moved."""
        config = self._state.config
        try:
            return await self._controller.submit(
                OffLoopDecision(lambda: lambda image: rebalance_leaders(image, config))
            )
        except KafkaError as e:
            logger.info("leaders were not balanced: %s", e)
            return False

    async def _elect_offline(self) -> None:
        seen = self._controller.image.configs
        while True:
            config = self._state.config
            try:
                count = await self._controller.submit(
                    OffLoopDecision(
                        lambda config=config: lambda image: elect_offline(image, config)
                    )
                )
            except KafkaError as e:
                logger.info("no leaders were elected for offline partitions: %s", e)
            else:
                if count:
                    logger.warning(
                        "elected out-of-sync leaders for %d offline partitions, as "
                        "unclean.leader.election.enable allows",
                        count,
                    )
            changed = False
            while not changed:
                await self._changed.wait()
                self._changed = trio.Event()
                before, seen = seen, self._controller.image.configs
                changed = _has_changed(before, seen)

    def _on_commit(self, before: MetadataImage, image: MetadataImage) -> None:
        if before.configs is not image.configs:
            self._changed.set()


def _has_changed(before: Configs, after: Configs) -> bool:
    """Return whether the config has changed for any resource."""
    found = changed_configs(before, after)
    return any(_value_of(before, resource) != _value_of(after, resource) for resource in found)


def _value_of(configs: Configs, resource: ConfigResource) -> str | None:
    return configs.get(resource, NO_CONFIGS).get(UNCLEAN)
