"""Immediate actions for tests: move a partition's leader, rebalance a group."""

from __future__ import annotations

from typing import Final

import trio

from pk.core.broker.broker import Broker
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import Event, PartitionChanged
from pk.core.meta.image import MetadataImage
from pk.core.values import NO_LEADER

AWAY_MS_MAX: Final = 60_000


async def move_leader(broker: Broker, topic: str, partition: int, away_ms: int) -> int:
    """Move the leadership of a partition to another in-sync replica. Returns the new leader. If
    there is no other, returns -1 at once, and the same replica leads again after `away_ms`, in a
    new epoch; until then the partition has no leader.

    Raises KafkaError: NOT_CONTROLLER if the controller is in another process,
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST.
    """
    controller = broker.cluster.controller
    if controller is None or not controller.active:
        raise KafkaError(
            ErrorCode.NOT_CONTROLLER,
            f"broker {broker.node_id} is not the controller: elect another leader",
        )
    if not 0 <= away_ms <= AWAY_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the time without leadership must be 0 to {AWAY_MS_MAX} ms, not {away_ms}",
        )

    def resign(image: MetadataImage) -> Decision[Event, int]:
        known, found = image.topics.get(topic), image.partition(topic, partition)
        if known is None or found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        others = [n for n in found.isr if n != found.leader and not image.brokers[n].fenced]
        leader = others[0] if others else NO_LEADER
        return Decision([PartitionChanged(known.topic_id, partition, leader=leader)], reply=leader)

    def lead_again(image: MetadataImage) -> Decision[Event, None]:
        known, found = image.topics.get(topic), image.partition(topic, partition)
        if known is None or found is None or found.leader != NO_LEADER or not found.isr:
            return Decision()
        return Decision([PartitionChanged(known.topic_id, partition, leader=found.isr[0])])

    async def come_back() -> None:
        await trio.sleep(away_ms / 1000)
        await controller.submit(lead_again)

    leader = await controller.submit(resign)
    offset = controller.image.offset
    await broker.purgatory.until(
        lambda: broker.image.offset >= offset, (MetadataImage,), float("inf")
    )
    if leader == NO_LEADER:
        broker.background.start_soon(come_back)
    return leader


async def rebalance(broker: Broker, group: str) -> None:
    """Rebalance a group. Raises KafkaError: NOT_COORDINATOR, GROUP_ID_NOT_FOUND,
    INVALID_REQUEST."""
    await broker.groups.coordinators.submit(
        group, lambda machine, _, now_ms: machine.rebalance(group, now_ms)
    )
