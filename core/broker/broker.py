"""The broker: its view of the cluster, the partitions it holds, the coordinators it runs. Request
handlers use this object.

It reacts to images. `publish(image)` compares the new image with the last one and acts on the
difference: logs are created and opened, leaders take over, topics are deleted, coordinators follow
their partitions. The image takes effect for handlers only when all that is done, so that a client
that learns of a topic can use it.

An image may change tens of thousands of partitions, so the reaction lets other tasks run. No reader
sees a part of the change in the image, which is replaced in one step, together with the
coordinators' knowledge. Before that, the partitions change one after another. Each is in the state
of either the old or the new image, and a request that finds a partition before or after its
leadership gets the error that this broker does not lead it.

The parts do not refer to the broker: `assemble` (assembly.py) creates them all and gives each the
few things that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

import trio
from msgspec import Struct, field

from pk.core.broker.background import Background
from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.broker.clock import Clock
from pk.core.broker.facades import BrokerCluster, BrokerData, BrokerGroups
from pk.core.broker.faults.faults import Faults
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.remote.remote_log_manager import RemoteLogManager
from pk.core.broker.requests.authorization import Authorization
from pk.core.broker.requests.client_quotas import ClientQuotas
from pk.core.broker.state import BrokerState
from pk.core.broker.telemetry.client_metrics import ClientMetrics
from pk.core.config import BrokerConfig
from pk.core.meta.events import BROKER
from pk.core.meta.image import Changes, MetadataImage, changes


class ImageListener(Protocol):
    """A part of the broker that reacts to images."""

    def image_changed(self, image: MetadataImage, delta: Changes) -> None:
        """React to `image`, which takes effect now; `delta` is the difference from the previous
        image."""
        ...


SPACE_RETRY_S: Final = 1.0
SPACE_RETRY_S_MAX: Final = 16.0
"""The pause before a full disk is checked for space again: the first one, and the longest."""


class Broker(Struct, eq=False, kw_only=True):
    """One broker's runtime. Its background tasks run in the nursery given to `start`."""

    state: BrokerState
    background: Background
    clock: Clock
    random: Random
    purgatory: Purgatory
    data: BrokerData
    groups: BrokerGroups
    cluster: BrokerCluster
    authorization: Authorization
    """The authorizer, and its audit log."""
    client_quotas: ClientQuotas
    """The quotas of clients."""
    faults: Faults | None
    """Faults that tests inject; None without `pk.faults.enable`."""
    client_metrics: ClientMetrics | None
    """Metrics that clients push; None without `pk.metrics.listener`, which exposes them."""
    remote: RemoteLogManager | None
    """The tasks of remote storage; None without `remote.log.storage.system.enable`."""
    image_listeners: list[ImageListener]
    disconnected: list[Callable[[int], None]]
    """Called with the id of a closed connection (`Context.connection_id`)."""
    _publishing: trio.Lock = field(default_factory=trio.Lock)
    _lacks_space: trio.Event = field(default_factory=trio.Event)
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
        """Start the background tasks. Before that, the broker only has state."""
        self.background.start(nursery)
        nursery.start_soon(self.purgatory.serve)
        self.data.start(nursery)
        nursery.start_soon(self._wait_for_space)

    async def publish(self, image: MetadataImage) -> None:
        """React to an image from the controller, then make it current. Later images wait for
        earlier ones. An image that is not newer than the current one is dropped, since it comes
        from a previous controller."""
        async with self._publishing:
            if image.offset <= self.image.offset:
                return
            delta = changes(self.image, image)
            if any(resource_type == BROKER for resource_type, _ in delta.configs):
                config = self.config.with_dynamic(
                    image.broker_configs(None), image.broker_configs(self.node_id)
                )
                self.state.config = config
                self.data.replication_quotas.configure(config)
            await self._react(image, delta)

    async def _react(self, image: MetadataImage, delta: Changes) -> None:
        await self.data.fetchers.release(delta)
        opened = await self.data.replicas.prepare(image, delta)
        uncommitted = await self.data.replicas.commit(image, delta, opened)
        removed = self.data.replicas.commit_internal(uncommitted)
        self.state.image = image
        # There is no checkpoint in this step: a coordinator must not outlive the leadership that it
        # depends on, nor overlap with the next one.
        for listener in self.image_listeners:
            listener.image_changed(image, delta)
        self.purgatory.touch(MetadataImage)
        # These may be late: a follower that is not fetching yet begins a moment later.
        await self.data.fetchers.follow(opened, delta)
        await self.data.assignments.follow(opened, delta)
        await self.data.replica_logs.follow(opened, delta)
        await self.data.replicas.deletion.delete(removed)
        if self.data.replicas.opener.lacking_space(image):
            self._lacks_space.set()

    async def _wait_for_space(self) -> None:
        """Create the logs that did not fit on a disk once it has space, even if no new image
        arrives."""
        wait_s = SPACE_RETRY_S
        while True:
            await self._lacks_space.wait()
            await trio.sleep(wait_s)
            self._lacks_space = trio.Event()
            async with self._publishing:
                late = Changes(partitions=self.data.replicas.opener.lacking_space(self.image))
                await self._react(self.image, late)
            wait_s = (
                min(2 * wait_s, SPACE_RETRY_S_MAX) if self._lacks_space.is_set() else SPACE_RETRY_S
            )
