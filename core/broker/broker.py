"""The broker: what it knows of the cluster, the partitions it holds, the coordinators it runs. Handlers find everything here.

It reacts to images. `publish(image)` compares the new image with the last one and does what the difference asks for: logs
are made and opened, leaders take over, topics go, coordinators follow their partitions. Only when all that is done is the
image in force for handlers, so that a client told of a topic finds it.

Its parts do not know it: each is given the few things it needs, when `assemble` (assembly.py) makes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import trio

from pk.core.broker.background import Background
from pk.core.broker.clock import Clock
from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.controller_link import Link
from pk.core.broker.coordinator.add_partitions_manager import AddPartitionsToTxnManager
from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
from pk.core.broker.coordinator.producer_ids import ProducerIds
from pk.core.broker.coordinator.transaction_coordinators import TransactionCoordinators
from pk.core.broker.coordinator.write_markers import MarkerWriter
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.alter_log_dirs import AlterLogDirsManager
from pk.core.broker.replication.alter_partition_manager import AlterPartitionManager
from pk.core.broker.replication.assign_replicas_to_dirs import AssignmentsManager
from pk.core.broker.replication.fetch_sessions import FetchSessions
from pk.core.broker.replication.lost_leaders import LostLeaders
from pk.core.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.replication.replication_quotas import ReplicationQuotas
from pk.core.broker.requests.auto_topic_creation import OnDemand
from pk.core.broker.state import BrokerState
from pk.core.config import BrokerConfig
from pk.core.meta.events import BROKER
from pk.core.meta.image import Changes, MetadataImage, changes

Served = Sequence[tuple[int, int, int]]
"""(api key, first version, last version)."""

Follow = Callable[[MetadataImage, Changes], None]
"""Called with each image that comes into force, and what it changed."""

ROOM_RETRY_S: Final = 1.0
ROOM_RETRY_S_MAX: Final = 16.0
"""How long it takes to look again whether a full disk has room: the first time, and later."""


@dataclass(slots=True, eq=False, kw_only=True)
class Broker:
    """One broker's runtime. Its background work lives in the nursery given to `start`."""

    state: BrokerState
    background: Background
    clock: Clock
    random: Random
    served: Served
    """What ApiVersions says."""
    controller_served: Served
    """What it says on a controller listener."""
    link: Link
    """To the active controller, wherever it is."""
    controller: Controller | None
    """The one in this process, active or not; None where the process has not that role."""
    purgatory: Purgatory
    sessions: FetchSessions
    quotas: ReplicationQuotas
    """How fast throttled replicas may copy."""
    replicas: Replicas
    """The partitions that this broker holds."""
    alter_partition: AlterPartitionManager
    """Keeps the in-sync replicas of what this broker leads."""
    fetchers: ReplicaFetcherManager
    """Copy from their leaders what this broker follows."""
    lost_leaders: LostLeaders
    assignments: AssignmentsManager
    """Tell the controller which directory holds each replica."""
    alter_log_dirs: AlterLogDirsManager
    topics_on_demand: OnDemand
    """Makes topics that clients ask for by name."""
    coordinators: GroupCoordinators
    transactions: TransactionCoordinators
    markers: MarkerWriter
    """Writes the markers that end transactions in partitions of this broker."""
    add_partitions: AddPartitionsToTxnManager
    """Asks the coordinators of transactions, wherever they are."""
    producer_ids: ProducerIds
    followers: list[Follow]
    disconnected: list[Callable[[int], None]]
    """Called with a connection's id (`Context.connection_id`) when that connection has ended."""
    _publishing: trio.Lock = field(default_factory=trio.Lock)
    _lacks_room: trio.Event = field(default_factory=trio.Event)
    """Set when a log could not be made since its disk was full."""

    @property
    def config(self) -> BrokerConfig:
        """With the dynamic keys of the image in force."""
        return self.state.config

    @property
    def image(self) -> MetadataImage:
        """The image in force."""
        return self.state.image

    @property
    def node_id(self) -> int:
        """`node.id`."""
        return self.state.node_id

    @property
    def cluster_id(self) -> str:
        """Of the cluster; "" where it is not known yet."""
        return self.state.cluster_id

    @property
    def broker_epoch(self) -> int:
        """Of this registration with the controller; -1 before it."""
        return self.state.broker_epoch

    def start(self, nursery: trio.Nursery) -> None:
        """Begin background work; before it the broker only holds state."""
        self.background.start(nursery)
        nursery.start_soon(self.alter_partition.run)
        nursery.start_soon(self.assignments.run)
        nursery.start_soon(self._await_room)

    async def stop_coordinators(self) -> None:
        """Close them all: who waits for one is sent elsewhere."""
        await self.coordinators.stop()
        await self.transactions.stop()
        self.add_partitions.close()

    async def publish(self, image: MetadataImage) -> None:
        """React to what the controller committed, then put `image` in force. Later images wait for earlier ones; one that
        is not newer than what is in force is dropped, since it comes from whoever was the controller before."""
        async with self._publishing:
            if image.offset <= self.image.offset:
                return
            found = changes(self.image, image)
            if any(resource_type == BROKER for resource_type, _ in found.configs):
                config = self.config.with_dynamic(
                    image.broker_configs(None), image.broker_configs(self.node_id)
                )
                self.state.config = config
                self.quotas.configure(config)
            await self._react(image, found)

    async def _react(self, image: MetadataImage, found: Changes) -> None:
        await self.fetchers.release(found)
        opened = await self.replicas.prepare(image, found, self.config)
        gone = self.replicas.commit(image, found, opened)
        self.state.image = image
        # Without a checkpoint: a coordinator must not outlive the leadership that it rests on, nor see the next one.
        for follow in self.followers:
            follow(image, found)
        self.purgatory.touch(MetadataImage)
        # These may be late: what nobody fetches yet is fetched a moment later.
        await self.fetchers.follow(opened, found)
        await self.assignments.follow(opened, found)
        await self.replicas.retire(gone)
        if self.replicas.lacking_room(image):
            self._lacks_room.set()

    async def _await_room(self) -> None:
        """Make the logs for which there was no room on the disk, once there is, though no image comes that asks for it."""
        wait_s = ROOM_RETRY_S
        while True:
            await self._lacks_room.wait()
            await trio.sleep(wait_s)
            self._lacks_room = trio.Event()
            async with self._publishing:
                late = self.replicas.lacking_room(self.image)
                await self._react(self.image, Changes(partitions=late))
            wait_s = (
                min(2 * wait_s, ROOM_RETRY_S_MAX) if self._lacks_room.is_set() else ROOM_RETRY_S
            )
