"""The broker: the image of the cluster, the partitions it holds, the coordinators it runs. Handlers find everything here.

It reacts to images. `publish(image)` compares the new image with the last one and does what the difference asks for: logs
are made and opened, leaders take over, topics go, coordinators follow their partitions. Only when all that is done is the
image in force for handlers, so that a client told of a topic finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from pk.core.broker.clock import Clock
from pk.core.broker.coordinator.producer_ids import ProducerIds
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.alter_log_dirs import AlterLogDirsManager
from pk.core.broker.replication.alter_partition_manager import AlterPartitionManager
from pk.core.broker.replication.assign_replicas_to_dirs import AssignmentsManager
from pk.core.broker.replication.fetch_sessions import FetchSessions
from pk.core.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.replication.replication_quotas import ReplicationQuotas
from pk.core.broker.requests.auto_topic_creation import OnDemand
from pk.core.config import BrokerConfig
from pk.core.meta import events
from pk.core.meta.events import BROKER
from pk.core.meta.image import Changes, MetadataImage, changes

if TYPE_CHECKING:
    from pk.core.broker.controller.controller import Controller
    from pk.core.broker.controller.controller_link import ControllerLink
    from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
    from pk.core.broker.peers import Peers
    from pk.core.log.dirs import LogDirs

logger = logging.getLogger("pk.broker")

Endpoint = tuple[str, int, str | None]
"""(host, port, rack)."""


class Broker:
    """One broker's runtime. Its background work lives in the nursery given to `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        node_id: int,
        cluster_id: str,
        dirs: LogDirs,
        clock: Clock,
        random: Random,
        served: list[tuple[int, int, int]],
        controller_served: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        """`served` is what ApiVersions says: (api key, first version, last version); `controller_served` what it says
        on a controller listener."""
        self.config = config
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.clock = clock
        self.random = random
        self.served = served
        self.controller_served = list(controller_served)
        self.image = MetadataImage(cluster_id=cluster_id)
        self.purgatory = Purgatory()
        self.sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots, EVICTION_MS, random
        )
        self.replicas = Replicas(
            dirs,
            config,
            node_id=node_id,
            purgatory=self.purgatory,
            clock=clock,
            start_soon=self.start_soon,
            doom=self.doom,
        )
        self.quotas = ReplicationQuotas(config, clock)
        """How fast throttled replicas may copy."""
        # (pyright knows this file by two names.)
        self.alter_partition = AlterPartitionManager(self)  # pyright: ignore[reportArgumentType]
        """Keeps the in-sync replicas of what this broker leads."""
        self.replicas.on_proposal = self.alter_partition.propose
        self.fetchers = ReplicaFetcherManager(self)  # pyright: ignore[reportArgumentType]
        """Copy from their leaders what this broker follows."""
        self.assignments = AssignmentsManager(self)  # pyright: ignore[reportArgumentType]
        """Tell the controller where replicas lie."""
        self.alter_log_dirs = AlterLogDirsManager(
            self.replicas, dirs, self.start_soon, self.quotas.directories, self.assignments.moved
        )
        self.topics_on_demand = OnDemand(self)  # pyright: ignore[reportArgumentType]
        """Makes topics that clients ask for by name."""
        self.producer_ids: ProducerIds
        self.broker_epoch = -1
        """Of this registration with the controller; -1 before it, and in a process that is a controller only."""
        self.controller: Controller | None = None
        """The one in this process, active or not; None where the process has not that role."""
        self.link: ControllerLink
        """To the active controller, wherever it is."""
        self.peers: Peers
        """Connections to other nodes."""
        self.disconnected: list[Callable[[int], None]] = []
        """Called with a connection's id (`Context.connection_id`) when that connection has ended."""
        self.coordinators: GroupCoordinators
        self.followers: list[Callable[[MetadataImage, Changes], None]] = []
        """Called with each image that comes into force, and what it changed."""
        self.doomed = trio.Event()
        """Set when the broker cannot go on; `doomed_because` says why."""
        self.doomed_because = ""
        self._suspects: dict[int, float] = {}
        self._publishing = trio.Lock()
        self._lacks_room = trio.Event()
        """Set when a log could not be made since its disk was full."""
        self._nursery: trio.Nursery | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Begin background work; before it the broker only holds state."""
        self._nursery = nursery
        nursery.start_soon(self.alter_partition.run)
        nursery.start_soon(self.assignments.run)
        nursery.start_soon(self._await_room)

    def start_soon(self, fn: Any, *args: Any) -> None:
        """Run a task of the broker's own."""
        assert self._nursery is not None, "the broker has not started"
        self._nursery.start_soon(fn, *args)

    def doom(self, why: str) -> None:
        """The broker cannot go on: its node is to end."""
        if not self.doomed.is_set():
            logger.critical("the broker stops: %s", why)
            self.doomed_because = why
            self.doomed.set()

    def suspect(self, node_id: int) -> None:
        """The connection by which this broker followed another one broke: it may be gone, and the controller about to say
        who leads instead."""
        self._suspects[node_id] = trio.current_time() + VERDICT_S

    @property
    def suspects(self) -> bool:
        """Whether what the image says of leaders may be over in a moment, for it names one that this broker has just lost."""
        now = trio.current_time()
        for node_id, until in list(self._suspects.items()):
            node = self.image.brokers.get(node_id)
            if now >= until or node is None or node.fenced:
                del self._suspects[node_id]
        return bool(self._suspects)

    async def wait_for_verdict(self) -> None:
        """Wait until the controller has said what became of who is suspected, at most `VERDICT_S`."""
        if not self.suspects:
            return
        deadline = max(self._suspects.values(), default=trio.current_time())
        await self.purgatory.until(lambda: not self.suspects, (MetadataImage,), deadline)

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        """Where clients that came through `listener` reach a node; None where it has no such listener."""
        node = self.image.brokers.get(node_id)
        endpoint = node.endpoint(listener) if node is not None else None
        if node is None or endpoint is None:
            return None
        return endpoint.host, endpoint.port, node.rack

    def inter_broker_endpoint(self, node_id: int) -> events.Endpoint | None:
        """Where other brokers reach a node (`inter.broker.listener.name`); None where it is unknown or has no such
        listener."""
        node = self.image.brokers.get(node_id)
        return None if node is None else node.endpoint(self.config.inter_broker_listener_name)

    def leader_of(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(leader, leader epoch) of a partition, None where there is no such partition."""
        found = self.image.partition(topic, partition)
        return (found.leader, found.leader_epoch) if found is not None else None

    async def publish(self, image: MetadataImage) -> None:
        """React to what the controller committed, then put `image` in force. Later images wait for earlier ones; one that
        is not newer than what is in force is dropped, since it comes from whoever was the controller before."""
        async with self._publishing:
            if image.offset <= self.image.offset:
                return
            found = changes(self.image, image)
            if any(resource_type == BROKER for resource_type, _ in found.configs):
                self.config = self.config.with_dynamic(
                    image.broker_configs(None), image.broker_configs(self.node_id)
                )
                self.quotas.configure(self.config)
            await self._react(image, found)

    async def _react(self, image: MetadataImage, found: Changes) -> None:
        await self.fetchers.release(found)
        opened = await self.replicas.prepare(image, found, self.config)
        gone = self.replicas.commit(image, found, opened)
        self.image = image
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
                min(2 * wait_s, ROOM_RETRY_MAX_S) if self._lacks_room.is_set() else ROOM_RETRY_S
            )


VERDICT_S = 0.25
"""How long a lost connection counts: the controller, whose own broke too, needs some hundredths of that to find out."""

ROOM_RETRY_S = 1.0
ROOM_RETRY_MAX_S = 16.0
"""How long it takes to look again whether a full disk has room: the first time, and later."""

EVICTION_MS = 120_000
"""How long a fetch session must have been idle to make room for another (KIP-227)."""
