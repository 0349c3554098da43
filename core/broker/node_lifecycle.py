"""The lifecycle of a node, without sockets, signals and a real disk: the broker, the controller, or
both, from start to stop.

A node is a broker, a controller, or both (`process.roles`). It gets its metadata in one of three
ways:

- with the *embedded* store it is the controller from the start, and no other node can be;
- with a store that *campaigns* (etcd, ZooKeeper) it follows the current controller and keeps
  campaigning; when it wins, it is the controller until it loses the leadership, then again a
  follower and a candidate. Its broker continues throughout;
- without a store (`process.roles=broker`) it follows.

The broker gets images from its own controller while that is active, else from the follower, never
from both; an image older than the broker's is dropped. It gets none before it is registered: an
image from an earlier life of this broker could still name it as a leader, in an epoch that is over.

`net/node.py` creates one with sockets and the real disk; tests/sim creates several with memory and
a seed, on trio's mock clock: there is no module state, no clock but the given one (and trio's, for
waiting), no randomness but the given one, and no thread if offload runs inline.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import trio
from msgspec import Struct, structs

from pk.core.broker.assembly import Environment, assemble
from pk.core.broker.background import Background
from pk.core.broker.broker import Broker
from pk.core.broker.clock import Clock, ShiftedClock
from pk.core.broker.controller.broker_lifecycle import BrokerLifecycle, RegistrationFailed
from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.controller_client import Client, ControllerClient, Forwarded, Locator
from pk.core.broker.controller.embedded_store import DIRECTORY as METADATA_DIRECTORY
from pk.core.broker.controller.embedded_store import EmbeddedStore
from pk.core.broker.controller.metadata_follower import MetadataFollower
from pk.core.broker.controller.static_locator import StaticLocator
from pk.core.broker.facades import Served
from pk.core.broker.faults.faults import Faults
from pk.core.broker.offload import THREADS_PER_DIRECTORY, is_inline, offload
from pk.core.broker.peers import Peers
from pk.core.broker.requests.context import Context, Dispatch
from pk.core.broker.state import BrokerState
from pk.core.broker.upkeep.cleaner import Cleaner, Compactor, ThreadCompactor
from pk.core.broker.upkeep.retention import LogRetention
from pk.core.broker.upkeep.scheduled_tasks import ScheduledTasks
from pk.core.broker.upkeep.scrubber import Scrubber
from pk.core.config import BrokerConfig
from pk.core.config.roles import EMBEDDED
from pk.core.errors import KafkaError
from pk.core.log.failures import LogDirBroken, LogDirMismatch, StorageError
from pk.core.log.files import Disk
from pk.core.log.log_dir import cluster_of
from pk.core.log.log_dirs import LogDirs
from pk.core.log.remote.storage import RemoteStorage
from pk.core.meta.events import TOPIC, Endpoint
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import MetadataLost, MetadataStore, StoreFailed
from pk.core.values import TopicPartition, new_id, uuid_text
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.controller_registration import ControllerRegistrationRequest, Listener

logger = logging.getLogger("pk.node")

DRAIN_S = 5.0
"""The time for pending responses to be sent when the node stops, in seconds."""

DRAIN_BEFORE_CLOSE = 0.2
"""The fraction of `DRAIN_S` after which the coordinators close, so that clients that wait for their
group look for the next coordinator."""

CONTROLLED_SHUTDOWN_S = 5.0
"""The time for the controller to move leadership away from a broker that stops, in seconds."""

LOG_WAIT_S = 5.0
"""The time after which a starting broker logs the reason for its wait, in seconds."""

CAMPAIGN_RETRY_S = 0.1
"""The interval between campaigns, in seconds."""


class StartError(Exception):
    """The node cannot start; the message is one sentence for the operator."""


async def lock_directories(
    config: BrokerConfig, disk: Disk, random: Random, *, holder: str
) -> LogDirs:
    """Lock the log directories and read their state. The node that creates a cluster generates its
    id; other nodes learn it from the controller and record it with `LogDirs.identify`. `holder` is
    the name of this process, for the error of a process that tries to lock them too.

    Raises LogDirError.
    """
    paths = list(config.log_dirs)
    creates_cluster = config.is_controller and config.pk_metadata_store == EMBEDDED

    def lock() -> LogDirs:
        cluster_id = cluster_of(disk, paths)
        if cluster_id is None and creates_cluster:
            cluster_id = uuid_text(new_id(random.randbytes))
        return LogDirs.open(
            disk,
            paths,
            cluster_id=cluster_id or "",
            node_id=config.node_id,
            holder=holder,
            new_id=lambda: new_id(random.randbytes),
        )

    try:
        return await offload(lock)
    except OSError as e:
        raise LogDirBroken(paths[0], f"The log directories cannot be used: {e}.") from e


class Platform(Struct, frozen=True):
    """The system under a node: its disk, clock and randomness. The simulator has its own."""

    disk: Disk
    dirs: LogDirs
    """The result of `lock_directories` on `disk`."""
    clock: Clock
    random: Random
    remote_storage: RemoteStorage | None = None
    """The store to which segments are copied; without it, no topic is tiered."""
    compactor: Compactor | None = None
    """Compacts logs; without it, threads of this process compact them."""


class Leadership(Struct, frozen=True):
    """How a node campaigns for the controller's leadership, and how it finds the controller."""

    store: MetadataStore | None = None
    """The store of a controller that campaigns. A node with `pk.metadata.store=embedded` creates
    its own store in a log directory."""
    locator: Locator | None = None
    """Finds the controller; without it, the config names the controllers."""
    close: Callable[[], Awaitable[None]] | None = None
    """Closes the locator's connections, if no store does."""


class Listeners(Struct, frozen=True):
    """The listeners of one kind, on this node and on other nodes."""

    peers: Peers
    """Connects to those of other nodes."""
    served: Served
    """The APIs that ApiVersions lists on them."""
    endpoints: Sequence[Endpoint] = ()
    """The advertised addresses of this node's listeners."""


class NodeLifecycle:
    """The lifecycle of a node, in this order: `broker.start(nursery)`, a controller's listeners,
    `run` (started when the node is ready to serve), the other listeners, `serve`, `stop`; cancel
    the nursery; `close`. A crash is only the cancelled nursery."""

    def __init__(
        self,
        config: BrokerConfig,
        platform: Platform,
        listeners: Listeners,
        controller_listeners: Listeners,
        *,
        dispatch: Dispatch,
        leadership: Leadership = Leadership(),
    ) -> None:
        """`listeners` are those for brokers and clients, `controller_listeners` those of
        controllers. `dispatch` calls the handlers of this process's controller."""
        self._config = config
        self._dirs, self._disk = dirs, disk = platform.dirs, platform.disk
        self._random = platform.random
        self._embedded = config.is_controller and config.pk_metadata_store == EMBEDDED
        self._is_single_node = self._embedded and not config.controller_listener_names
        """Whether this cluster can never have another node, because none could reach the
        controller."""
        self._controller_endpoints = controller_listeners.endpoints
        self._dispatch = dispatch
        cluster_id = _cluster_of(dirs, disk)
        self._state = BrokerState(config, node_id=config.node_id, cluster_id=cluster_id)
        self._background = Background()
        faults: Faults | None = None
        if config.pk_faults_enable:
            shifted = ShiftedClock(platform.clock)
            platform, faults = structs.replace(platform, clock=shifted), Faults(shifted)
        now_ms = platform.clock.now_ms
        self._store = leadership.store
        if self._embedded:
            self._store = EmbeddedStore(disk, self._metadata_directory(), now_ms)
        self._close_locator = leadership.close
        self._controller = self._make_controller(now_ms, listeners.peers)
        locator = leadership.locator or StaticLocator(config)
        self._controller_client = ControllerClient(
            locator,
            controller_listeners.peers,
            controller=self._controller,
            answer_locally=self._answer_locally,
            request_bytes_max=config.socket_request_max_bytes,
        )
        self.broker_lifecycle = BrokerLifecycle(
            self._state,
            self._controller_client,
            dirs,
            listeners.endpoints,
            self._background,
            new_id=lambda: new_id(self._random.randbytes),
        )
        self.broker_lifecycle.registered_again.append(
            lambda: self._background.start_soon(self._publish_newest)
        )
        self._follower = MetadataFollower(
            config,
            self,
            locator=locator,
            peers=controller_listeners.peers,
            random=platform.random,
        )
        self.broker = self._make_broker(platform, listeners, controller_listeners.served, faults)
        self._scrubber = self._make_scrubber(listeners.peers)
        self._upkeep = ScheduledTasks(self.broker.data.replicas, dirs, config)
        self._compactor = platform.compactor or ThreadCompactor(disk)
        self.newest = MetadataImage(cluster_id=cluster_id)
        """The newest known image; the broker's image may be older."""
        self._cluster_id_known = trio.Event()
        """Set when the cluster's id is known. A node with empty directories learns the id from the
        metadata log."""
        self._fatal_error: Exception | None = None
        self._accepted_first_image = False
        """Whether the node has accepted its first image, which may contain a reason not to
        start."""
        self._campaign_error = ""
        """The reason why this node cannot be the controller, apart from another controller."""
        self._high_watermarks: dict[TopicPartition, int] = {}
        if cluster_id:
            self._cluster_id_known.set()

    def _make_controller(self, now_ms: Callable[[], int], peers: Peers) -> Controller | None:
        """Return this process's controller, or None without a store."""
        if self._store is None:
            return None
        return Controller(
            self._store,
            self._state,
            peers,
            snapshot_bytes=self._config.pk_metadata_log_bytes_between_snapshots,
            now_ms=now_ms,
        )

    def _make_broker(
        self,
        platform: Platform,
        listeners: Listeners,
        controller_served: Served,
        faults: Faults | None,
    ) -> Broker:
        broker = assemble(
            Environment(
                self._state,
                self._background,
                platform.dirs,
                platform.clock,
                platform.random,
                self._controller_client,
                listeners.peers,
                self._controller,
                platform.remote_storage,
            ),
            served=listeners.served,
            controller_served=controller_served,
            image_listeners=[self.broker_lifecycle],
            faults=faults,
        )
        broker.data.replicas.failures.directory_failed.append(
            self.broker_lifecycle.directory_failed
        )
        return broker

    def _make_scrubber(self, peers: Peers) -> Scrubber:
        broker = self.broker
        return Scrubber(
            self._state,
            broker.data.replicas,
            peers,
            broker.data.replica_logs,
            lambda: broker.config,
        )

    async def _answer_locally(self, client: Client | None, request: Any) -> Forwarded:
        """Return the response of this process's controller; `client` is a `Context`, or None for
        this node's own requests."""
        if client is None:
            api = MESSAGES[request.API_KEY]
            client = Context(self.broker, api.key, api.versions[1], client_id="", own=True)
        assert isinstance(client, Context)
        return await self._dispatch(client, request)

    @property
    def leads(self) -> bool:
        """Whether the active controller is in this process."""
        return self._controller is not None and self._controller.active

    def controller_refused(self, controller_id: int, endpoint: Endpoint) -> None:
        """Depose the controller, because no process listens at its address."""
        if self._store is not None:
            self._store.depose(controller_id, endpoint)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start, signal readiness when requests can be served, and run until cancelled.

        Raises StartError; LogDirError if a directory belongs to another node, or if the broker
        cannot continue.
        """
        config = self._config
        self._disk.read_failed = self._read_failure_handler(trio.lowlevel.current_trio_token())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._raise_failure)
            if self._embedded:
                await self._open_embedded()
                await nursery.start(self._run_controller)
            else:
                nursery.start_soon(self._follower.run)
                if self._store is not None:
                    nursery.start_soon(self._campaign)
            if config.is_broker:
                await self._start_broker(nursery)
            if self._controller_endpoints:
                nursery.start_soon(self._register_controller)
            task_status.started()

    async def serve(self) -> None:
        """Unfence this broker, whose listeners are bound. Returns when the controller has done
        so."""
        if self._config.is_broker:
            await self.broker.data.replica_logs.report_damage()
            await self.broker_lifecycle.serve()

    async def stop(self, drain: Callable[[float], Awaitable[None]]) -> None:
        """Stop cleanly, as far as this is possible while `run` still runs. First hand over
        leadership while requests are still served; then call `drain(grace_s)` twice, which stops
        the listeners and sends pending responses. Afterwards, cancel `run`, and call
        `close(clean=True)`."""
        if self._config.is_broker:
            await self.broker_lifecycle.controlled_shutdown(CONTROLLED_SHUTDOWN_S)
        await drain(DRAIN_S * DRAIN_BEFORE_CLOSE)
        await self.broker.groups.stop()
        await drain(DRAIN_S * (1 - DRAIN_BEFORE_CLOSE))
        self._high_watermarks = self._upkeep.high_watermarks()

    async def close(self, *, clean: bool) -> None:
        """Make everything durable and mark the shutdown as clean. Without `clean`, only release the
        locks."""
        self._controller_client.close()
        if self._store is not None:
            try:
                await self._store.close()
            except StoreFailed as e:
                logger.error("the metadata log was not closed cleanly: %s", e)
        if self._close_locator is not None:
            await self._close_locator()
        await offload(self._close_logs if clean else self._dirs.release)

    def _close_logs(self) -> None:
        """Close logs in a thread, or in several unless offloaded work runs inline."""
        threads = 1 if is_inline() else THREADS_PER_DIRECTORY
        # A broker that never registered keeps the epoch of its last clean shutdown, which is still
        # true.
        epoch = (
            self._state.broker_epoch
            if self._state.broker_epoch >= 0
            else self._dirs.clean_broker_epoch
        )
        self._dirs.close(self._high_watermarks, epoch, threads=threads)

    def _read_failure_handler(
        self, loop: trio.lowlevel.TrioToken
    ) -> Callable[[str, OSError], None]:
        """Return the function that the disk calls, in any thread, with an unreadable path. It takes
        the log directory of the path offline."""

        def report(path: str, error: OSError) -> None:
            with contextlib.suppress(trio.RunFinishedError):
                loop.run_sync_soon(
                    self.broker.data.replicas.failures.report, StorageError(path, "read", error)
                )

        return report

    async def _raise_failure(self) -> None:
        """Raise the reason when the broker cannot continue. Then nothing is marked as clean."""
        await self._background.failed.wait()
        if self._fatal_error is not None:
            raise self._fatal_error
        raise LogDirBroken(
            self._config.log_dirs[0], f"The broker stopped: {self._background.failure}."
        )

    # --- the controller ---

    async def _register_controller(self) -> None:
        """Register this controller's listeners with the cluster (KIP-919). Only operators use
        this."""
        config = self._config
        request = ControllerRegistrationRequest(
            controller_id=config.node_id,
            incarnation_id=new_id(self._random.randbytes),
            listeners=[
                Listener(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in self._controller_endpoints
            ],
        )
        while True:
            try:
                await self._controller_client.request(request, timeout_ms=config.request_timeout_ms)
            except KafkaError as e:
                logger.info("this controller could not be registered: %s", e)
            else:
                return

    def _metadata_directory(self) -> str:
        """Return the directory of the metadata log: the one that contains it, or else the first one
        of `log.dirs`.

        Raises StartError rather than starting an empty log while a failed directory may contain it.
        """
        dirs = self._dirs
        for directory in dirs.usable:
            if self._disk.exists(f"{directory.path}/{METADATA_DIRECTORY}"):
                return directory.path
        failed = [directory.path for directory in dirs.directories if directory.failed]
        if failed:
            raise StartError(
                f"no working log directory has the metadata log; it may be in {', '.join(failed)}"
            )
        return dirs.usable[0].path

    async def _open_embedded(self) -> None:
        controller = self._controller
        assert controller is not None
        try:
            await controller.open(self._state.cluster_id, logs_held=self._dirs.logs_held)
        except (StoreFailed, KafkaError) as e:
            raise StartError(
                f"the metadata log in {self._metadata_directory()} cannot be used: {e}"
            ) from e

    async def _run_controller(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the embedded controller. After a failed append it loads its log and continues. If
        that fails, so does the node: a broker without a controller cannot work correctly for
        long."""
        controller = self._controller
        assert controller is not None
        try:
            await controller.run(self.publish, task_status=task_status)
            while True:
                await controller.open(self._state.cluster_id)
                await controller.run(self.publish)
        except (StoreFailed, KafkaError) as e:
            self._background.fail(f"the metadata log failed, so there is no controller: {e}")

    async def _campaign(self) -> None:
        """Campaign forever, and be the controller after each campaign that this node wins."""
        controller, store = self._controller, self._store
        assert controller is not None and store is not None
        while True:
            try:
                new_cluster_id = uuid_text(new_id(self._random.randbytes))
                held = self._dirs.logs_held
                await controller.open(self._state.cluster_id, new_cluster_id, logs_held=held)
            except (StoreFailed, KafkaError) as e:
                is_lost = isinstance(e, MetadataLost)
                reason = (
                    f"the metadata log in {self._config.pk_metadata_store} cannot be used: {e}"
                    if is_lost
                    else str(e)
                )
                new, self._campaign_error = reason != self._campaign_error, reason
                level = logging.ERROR if is_lost and new else logging.INFO
                logger.log(level, "the campaign for the controller's leadership failed: %s", reason)
            else:
                logger.info(
                    "node %d is the controller of epoch %d",
                    controller.controller_id,
                    controller.epoch,
                )
                self._follower.stop()
                await controller.run(self.publish)
            await trio.sleep(CAMPAIGN_RETRY_S)

    # --- the broker ---

    async def _start_broker(self, nursery: trio.Nursery) -> None:
        """Register, open the partitions that the cluster assigns to this broker, and start its
        background tasks."""
        config, broker, dirs = self._config, self.broker, self._dirs
        async with trio.open_nursery() as waiting:
            waiting.start_soon(self._log_wait)
            await self._register()
            waiting.cancel_scope.cancel()
        if not self._is_single_node:
            nursery.start_soon(self.broker_lifecycle.run)
        await self.publish(self.newest)
        await broker.purgatory.until(
            lambda: self._has_registration(broker.image), (MetadataImage,), float("inf")
        )
        known = {
            TopicPartition(topic.name, partition.partition)
            for topic in broker.image.topics.values()
            for partition in topic.partitions
            if config.node_id in partition.replicas
        }
        try:
            await offload(dirs.rename_strays, known)
        except StorageError as e:
            broker.data.replicas.failures.report(e)
        broker.data.replicas.deletion.remove_leftovers()
        broker.data.alter_log_dirs.resume()
        nursery.start_soon(self._upkeep.run)
        retention = LogRetention(broker.data.replicas, config)
        nursery.start_soon(retention.run)
        if broker.remote is not None:
            nursery.start_soon(broker.remote.run)
        if broker.faults is not None:
            broker.faults.clock_moved += [retention.check, self._upkeep.expire_producers]
        nursery.start_soon(
            Cleaner(broker.data.replicas, lambda: broker.config, self._compactor).run
        )
        nursery.start_soon(self._scrubber.run)

    async def _register(self) -> None:
        """Register the broker. Raises StartError."""
        await self._wait_for_cluster_id()
        try:
            if self._is_single_node:
                assert self._controller is not None
                await self.broker_lifecycle.register_first(self._controller)
            else:
                await self.broker_lifecycle.register()
        except RegistrationFailed as e:
            raise StartError(str(e)) from e

    async def _wait_for_cluster_id(self) -> None:
        """Wait until the cluster's id is known. Raises StartError."""
        timeout_ms = self._config.initial_broker_registration_timeout_ms
        with trio.move_on_after(timeout_ms / 1000):
            await self._cluster_id_known.wait()
            return
        raise StartError(
            f"no controller answered within {timeout_ms} ms with the cluster's id: "
            f"{self._reason_for_no_controller}"
        )

    @property
    def _reason_for_no_controller(self) -> str:
        if self._campaign_error or self._follower.last_error:
            return self._campaign_error or self._follower.last_error
        store = self._config.pk_metadata_store
        return "no controller was found" if store == EMBEDDED else f"{store} has no controller"

    async def _log_wait(self) -> None:
        await trio.sleep(LOG_WAIT_S)
        if error := self.broker_lifecycle.last_error:
            logger.warning("the controller refuses this broker: %s", error)
        else:
            logger.warning("still waiting for a controller: %s", self._reason_for_no_controller)

    async def publish(self, image: MetadataImage) -> None:
        """Keep an image that is not older than the known one, and publish it to the broker if the
        broker is registered in it."""
        if image.offset < self.newest.offset:
            return
        self.newest = image
        if not self._cluster_id_known.is_set() and image.cluster_id:
            await self._identify(image.cluster_id)
        if not self._config.is_broker or self._has_registration(image):
            if not self._accepted_first_image and (tiered := self._topics_without_storage(image)):
                # Check this before any log is opened, because a log would begin with its local
                # segments.
                self._fatal_error = StartError(
                    "You have to delete all topics with the property remote.storage.enable=true "
                    f"before disabling tiered storage cluster-wide: {', '.join(tiered)}. Or start "
                    "with remote.log.storage.system.enable=true."
                )
                self._background.fail(str(self._fatal_error))
                return
            self._accepted_first_image = True
            await self.broker.publish(image)

    def _topics_without_storage(self, image: MetadataImage) -> list[str]:
        """Return the topics with remote storage, if this broker has none."""
        if self._config.remote_log_storage_system_enable or not self._config.is_broker:
            return []
        return sorted(
            name
            for (kind, name), own in image.configs.items()
            if kind == TOPIC and own.get("remote.storage.enable") == "true"
        )

    async def _publish_newest(self) -> None:
        """Publish the newest image again, because this broker is only now registered in it."""
        await self.publish(self.newest)

    async def _identify(self, cluster_id: str) -> None:
        try:
            await offload(self._dirs.identify, cluster_id, self._config.node_id)
        except LogDirMismatch as e:
            self._fatal_error = e
            self._background.fail(str(e))
            return
        self._state.cluster_id = cluster_id
        self._cluster_id_known.set()

    def _has_registration(self, image: MetadataImage) -> bool:
        """Return whether the image is from after this broker's registration."""
        me = image.brokers.get(self._config.node_id)
        return me is not None and me.broker_epoch == self._state.broker_epoch


def _cluster_of(dirs: LogDirs, disk: Disk) -> str:
    """Return the cluster id in the directories; "" if it is still unknown."""
    return cluster_of(disk, [directory.path for directory in dirs.usable]) or ""
