"""The broker: its view of the cluster, the partitions it holds, the coordinators it runs. Request
handlers use this object.

It reacts to images. `publish(image)` compares the new image with the last one and acts on the
difference: logs are created and opened, leaders take over, topics are deleted, coordinators follow
their partitions. Only when all that is done does the image take effect for handlers, so that a
client that learns of a topic can use it.

An image may change tens of thousands of partitions, so others run during the reaction. Nobody sees
half of it in the image, which is replaced in one step, together with what coordinators know. The
partitions themselves turn one after another before that: each is wholly what the old image or the
new one says, and one that a client looks for too early or too late says that it does not lead.

Its parts do not know it: `assemble` (assembly.py) creates them all and gives each the few things
that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Protocol

import trio
from msgspec import Struct, field

from pk.core.broker.background import Background
from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.broker.clock import Clock
from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.controller_client import ForwardingClient
from pk.core.broker.coordinator.add_partitions_manager import AddPartitionsToTxnManager
from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
from pk.core.broker.coordinator.producer_ids import ProducerIds
from pk.core.broker.coordinator.share_coordinators import ShareCoordinators
from pk.core.broker.coordinator.share_offsets import ShareOffsets
from pk.core.broker.coordinator.share_state_client import ShareStateClient
from pk.core.broker.coordinator.transaction_coordinators import TransactionCoordinators
from pk.core.broker.coordinator.write_markers import MarkerWriter
from pk.core.broker.faults.faults import Faults
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.alter_log_dirs import AlterLogDirsManager
from pk.core.broker.replication.alter_partition_manager import AlterPartitionManager
from pk.core.broker.replication.assign_replicas_to_dirs import AssignmentsManager
from pk.core.broker.replication.disconnected_leaders import DisconnectedLeaders
from pk.core.broker.replication.fetch_sessions import FetchSessions
from pk.core.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from pk.core.broker.replication.replica_logs import ReplicaLogs
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.replication.replication_quotas import ReplicationQuotas
from pk.core.broker.requests.authorization import Authorization
from pk.core.broker.requests.auto_topic_creation import OnDemand
from pk.core.broker.requests.client_quotas import ClientQuotas
from pk.core.broker.requests.recently_fenced import RecentlyFencedBrokers
from pk.core.broker.share.share_partitions import SharePartitions
from pk.core.broker.state import BrokerState
from pk.core.broker.telemetry.client_metrics import ClientMetrics
from pk.core.config import BrokerConfig
from pk.core.meta.events import BROKER
from pk.core.meta.image import Changes, MetadataImage, changes

Served = Sequence[tuple[int, int, int]]
"""(api key, first version, last version)."""


class ImageListener(Protocol):
    """A part of the broker that reacts to images."""

    def image_changed(self, image: MetadataImage, found: Changes) -> None:
        """`image` takes effect; `found` is the difference from the previous one."""
        ...


ROOM_RETRY_S: Final = 1.0
ROOM_RETRY_S_MAX: Final = 16.0
"""How long to wait before checking a full disk for space again: the first time, and later."""


class Broker(Struct, eq=False, kw_only=True):
    """One broker's runtime. Its background tasks run in the nursery given to `start`."""

    state: BrokerState
    background: Background
    clock: Clock
    random: Random
    served: Served
    """The response to ApiVersions."""
    controller_served: Served
    """The same on a controller listener."""
    controller_client: ForwardingClient
    """The client of the active controller, wherever it is."""
    controller: Controller | None
    """The controller in this process, active or not; None if the process does not have that
    role."""
    purgatory: Purgatory
    sessions: FetchSessions
    authorization: Authorization
    """The authorizer, and its audit log."""
    client_quotas: ClientQuotas
    """How much clients may take."""
    quotas: ReplicationQuotas
    """How fast throttled replicas may be copied."""
    replicas: Replicas
    """The partitions that this broker holds."""
    alter_partition: AlterPartitionManager
    """Maintains the in-sync replicas of partitions that this broker leads."""
    fetchers: ReplicaFetcherManager
    """Copy partitions that this broker follows from their leaders."""
    disconnected_leaders: DisconnectedLeaders
    recently_fenced: RecentlyFencedBrokers
    assignments: AssignmentsManager
    """Tell the controller which directory holds each replica."""
    replica_logs: ReplicaLogs
    """Tell the controller how far the logs of partitions without a leader go."""
    alter_log_dirs: AlterLogDirsManager
    topics_on_demand: OnDemand
    """Creates topics that clients request by name."""
    coordinators: GroupCoordinators
    transactions: TransactionCoordinators
    share_coordinators: ShareCoordinators
    share_state_client: ShareStateClient
    """Sends requests to share coordinators, wherever they are."""
    share_offsets: ShareOffsets
    """The progress of share groups in their topics."""
    share_partitions: SharePartitions
    """The partitions that share groups fetch from this broker."""
    markers: MarkerWriter
    """Writes transaction markers to partitions of this broker."""
    add_partitions: AddPartitionsToTxnManager
    """Sends requests to transaction coordinators, wherever they are."""
    producer_ids: ProducerIds
    faults: Faults | None
    """Faults that tests asked for; None without `pk.faults.enable`."""
    client_metrics: ClientMetrics | None
    """Metrics that clients push; None without `pk.metrics.listener`, which shows them."""
    image_listeners: list[ImageListener]
    disconnected: list[Callable[[int], None]]
    """Called with a connection's id (`Context.connection_id`) when that connection has closed."""
    _publishing: trio.Lock = field(default_factory=trio.Lock)
    _lacks_room: trio.Event = field(default_factory=trio.Event)
    """Set when a log could not be created because its disk was full."""

    @property
    def config(self) -> BrokerConfig:
        """The config, with the dynamic keys of the current image."""
        return self.state.config

    @property
    def image(self) -> MetadataImage:
        """The current image."""
        return self.state.image

    @property
    def metrics(self) -> BrokerMetrics:
        """The broker's metrics."""
        return self.state.metrics

    @property
    def node_id(self) -> int:
        """`node.id`."""
        return self.state.node_id

    @property
    def cluster_id(self) -> str:
        """The cluster's id; "" if it is not known yet."""
        return self.state.cluster_id

    @property
    def broker_epoch(self) -> int:
        """The epoch of this registration with the controller; -1 before it."""
        return self.state.broker_epoch

    def start(self, nursery: trio.Nursery) -> None:
        """Start background tasks; before that, the broker only holds state."""
        self.background.start(nursery)
        nursery.start_soon(self.purgatory.serve)
        nursery.start_soon(self.alter_partition.run)
        nursery.start_soon(self.assignments.run)
        nursery.start_soon(self.replica_logs.run)
        nursery.start_soon(self._await_room)

    async def stop_coordinators(self) -> None:
        """Close all coordinators: clients that wait for one are sent to the next."""
        await self.coordinators.stop()
        await self.transactions.stop()
        await self.share_coordinators.stop()
        self.share_partitions.close()
        self.share_state_client.close()
        self.share_offsets.close()
        self.add_partitions.close()

    async def publish(self, image: MetadataImage) -> None:
        """React to what the controller committed, then make `image` current. Later images wait for
        earlier ones; an image that is not newer than the current one is dropped, since it comes
        from a previous controller."""
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
        later = await self.replicas.commit(image, found, opened)
        gone = self.replicas.commit_internal(later)
        self.state.image = image
        # Without a checkpoint: a coordinator must not outlive the leadership that it depends on,
        # nor overlap with the next.
        for listener in self.image_listeners:
            listener.image_changed(image, found)
        self.purgatory.touch(MetadataImage)
        # These may be late: a partition that is not fetched yet is fetched a moment later.
        await self.fetchers.follow(opened, found)
        await self.assignments.follow(opened, found)
        await self.replica_logs.follow(opened, found)
        await self.replicas.retire(gone)
        if self.replicas.lacking_room(image):
            self._lacks_room.set()

    async def _await_room(self) -> None:
        """Create the logs that did not fit on the disk once there is space, even if no new image
        arrives."""
        wait_s = ROOM_RETRY_S
        while True:
            await self._lacks_room.wait()
            await trio.sleep(wait_s)
            self._lacks_room = trio.Event()
            async with self._publishing:
                late = Changes(partitions=self.replicas.lacking_room(self.image))
                await self._react(self.image, late)
            wait_s = (
                min(2 * wait_s, ROOM_RETRY_S_MAX) if self._lacks_room.is_set() else ROOM_RETRY_S
            )
