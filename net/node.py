"""A node: assembles, starts and stops a broker, a controller or both.

To start, in this order: hold the log directories; bind the listeners (which replaces port 0 with a
real port that other nodes can use); serve the controller's listener; start the node's lifecycle,
which loads or follows the metadata, registers the broker and opens its logs; serve clients. To
stop: transfer leadership, stop accepting connections, answer the requests in flight, stop the
coordinators, make everything durable, write the marker of a clean shutdown.

`core/broker/node_lifecycle.py` runs on any disk and connections; this file adds sockets, signals
and the machine.
"""

from __future__ import annotations

import gc
import logging
import platform
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final

import trio
from msgspec import Struct

from pk.core.api.cluster.faults import with_faults
from pk.core.api.index import CONTROLLER_APIS, apis_of, dispatch, import_all
from pk.core.auth.sasl_config import check_sasl
from pk.core.broker.broker import Broker
from pk.core.broker.clock import Clock, SystemClock
from pk.core.broker.metric_samples import metrics_of
from pk.core.broker.node_lifecycle import (
    Listeners,
    NodeLifecycle,
    Platform,
    lock_directories,
)
from pk.core.broker.offload import is_inline, offload
from pk.core.config import BrokerConfig, ConfigError, unsupported_keys
from pk.core.config.security_promises import check_security
from pk.core.log.disk import RealDisk, this_process
from pk.core.log.failures import LogDirError
from pk.core.log.files import Disk
from pk.core.log.log_dirs import LogDirs
from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError
from pk.core.log.remote.stores import open_storage, store_options
from pk.net.collector import rare_collections, short_collections
from pk.net.compactor import InProcess
from pk.net.endpoints import BoundListener, StartError, bind
from pk.net.interpreter_switches import short_switches
from pk.net.leadership import leadership_of
from pk.net.listener_security import check_kerberos, check_oauth, check_tls
from pk.net.peers import NetPeers, Security, security_of
from pk.net.server import Server
from pk.net.service_manager import ServiceManager
from pk.net.shutdown_signals import redirect_closed_terminal, shutdown_signals

if TYPE_CHECKING:
    from pk.core.metrics import Metric
    from pk.net.metrics.listener import MetricsListener

logger = logging.getLogger("pk.node")

LAZY_IMPORT_AFTER_S: Final = 1.0
"""How long after its start a node imports the modules that no request has needed yet."""


class Parts(Struct, frozen=True):
    """The parts of a node whose directories are held and listeners bound. All of them are created
    before any of them runs."""

    listeners: list[BoundListener]
    """The bound listeners in the order of `listeners`, including the controller's."""
    controllers: list[BoundListener]
    """Those of `listeners` that belong to the controller."""
    lifecycle: NodeLifecycle
    server: Server


class Node:
    """A process of a cluster."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Initialize the node. `disk` and the other parameters default to the machine's own. Raises
        StartError on an unsupported platform."""
        if platform.system() not in ("Linux", "Darwin"):
            raise StartError(f"pk runs on Linux and macOS, not on {platform.system()}")
        self._config = config
        self._disk = disk if disk is not None else RealDisk()
        self._clock = clock if clock is not None else SystemClock()
        self._random = random if random is not None else SystemRandom()
        self._stopping = trio.Event()
        self._started: Parts | None = None
        self._metrics: MetricsListener | None = None
        self._serving = False
        """Whether clients are served: from `ready` until shutdown begins."""

    @property
    def metrics_port(self) -> int | None:
        """The port that serves metrics; None without `pk.metrics.listener`."""
        return None if self._metrics is None else self._metrics.port

    @property
    def parts(self) -> Parts:
        """The parts of the node. Raises RuntimeError before `run` has bound the listeners."""
        if self._started is None:
            raise RuntimeError("the node has not bound its listeners yet")
        return self._started

    @property
    def broker(self) -> Broker:
        """The broker; it exists once the listeners are bound."""
        return self.parts.lifecycle.broker

    @property
    def server(self) -> Server:
        """The server of the node's listeners."""
        return self.parts.server

    @property
    def listeners(self) -> list[BoundListener]:
        """The bound listeners in the order of `listeners`, including the controller's."""
        return self.parts.listeners

    @property
    def address(self) -> str:
        """The address for clients or, on a pure controller, for other nodes."""
        names = [listener.name for listener in self._config.broker_listeners]
        ours = [one for one in self.listeners if one.name in names]
        return (ours or self.listeners)[0].address

    @property
    def controller_address(self) -> str | None:
        """The address where other nodes reach the controller in this process; None if it has no
        listener of its own."""
        found = self.parts.controllers
        return found[0].address if found else None

    @property
    def stopping(self) -> bool:
        """Whether the shutdown has begun."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Begin the shutdown. `run` returns when everything is drained and durable."""
        self._stopping.set()

    async def reload_tls_files(self) -> None:
        """Reload the TLS files of all listeners, and log whether they are valid. New connections
        use the new files, or the previous ones if the new files are invalid."""
        try:
            await check_tls(self._newest_config())
        except ConfigError as e:
            logger.error("TLS files not reloaded: %s", e)
        else:
            logger.info("the TLS files of all listeners are valid")

    async def run(self, ready: Callable[[Node], None]) -> None:
        """Start the node, call `ready`, and serve until `stop`. Raises StartError, LogDirError."""
        config = self._config
        try:
            check_security(config)
            check_sasl(config)
            await check_tls(config)
            check_oauth(config)
            await check_kerberos(config)
        except ConfigError as e:
            raise StartError(str(e)) from None
        if given := unsupported_keys(config.static):
            logger.warning("ignored, not implemented: %s", ", ".join(given))
        if unread := config.keys_without_reader:
            logger.warning(
                "unknown config keys, kept for plugins as in Apache Kafka: %s", ", ".join(unread)
            )
        dirs = await lock_directories(config, self._disk, self._random, holder=this_process())
        listeners: list[BoundListener] = []
        parts: Parts | None = None
        clean = False
        try:
            listeners = await bind(config)
            async with trio.open_nursery() as nursery:
                parts = self._started = self._make_parts(dirs, listeners, nursery)
                await self._serve_metrics(nursery)
                with trio.CancelScope() as starting:
                    # A node that waits for a controller stops waiting if it is stopped.
                    nursery.start_soon(self._cancel_when_stopping, starting)
                    await _serve(parts, nursery)
                    self._serving = True
                    ready(self)
                if not starting.cancelled_caught:
                    nursery.start_soon(_import_lazy_modules)
                    await self._stopping.wait()
                    await parts.lifecycle.stop(parts.server.drain)
                nursery.cancel_scope.cancel()
            clean = True
        finally:
            with trio.CancelScope(shield=True):
                for listener in listeners:
                    for one in listener.listeners:
                        await trio.aclose_forcefully(one)
                if parts is None:
                    dirs.release()
                else:
                    await parts.lifecycle.close(clean=clean)

    async def _serve_metrics(self, nursery: trio.Nursery) -> None:
        """Serve metrics from now on, if the config enables them. Raises StartError."""
        address = self._config.pk_metrics_listener
        if address is None:
            return
        try:
            from pk.net.metrics.listener import MetricsListener
        except ModuleNotFoundError as e:
            raise StartError(
                f"pk.metrics.listener needs {e.name}, which is not installed: pip install "
                "'pk-broker[metrics]'"
            ) from e
        listener = MetricsListener(self._collect, self._not_ready)
        await listener.bind(*address)
        self._metrics = listener
        nursery.start_soon(listener.serve)

    async def _collect(self) -> Sequence[Metric]:
        found = await metrics_of(self.broker)
        clients = self.broker.client_metrics
        return found if clients is None else [*found, *clients.samples()]

    def _not_ready(self) -> str | None:
        """Return why the node does not serve clients; None if it does."""
        if self.stopping:
            return "stopping"
        if not self._serving:
            return "starting"
        broker = self.broker
        known = broker.image.brokers.get(broker.node_id)
        if self._config.is_broker and (known is None or known.fenced):
            return "fenced by the controller"
        return None

    def _newest_config(self) -> BrokerConfig:
        """Return the config with the keys that changed at runtime."""
        return self._config if self._started is None else self.broker.config

    async def _cancel_when_stopping(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()

    def _make_parts(
        self, dirs: LogDirs, listeners: list[BoundListener], nursery: trio.Nursery
    ) -> Parts:
        config = self._config
        names = config.controller_listener_names
        controllers = [listener for listener in listeners if listener.name in names]
        leadership = leadership_of(config, controllers, nursery)
        client_id = f"pk-node-{config.node_id}"

        def broker_security() -> Security:
            return security_of(self._newest_config(), *config.inter_broker_login)

        def controller_security() -> Security:
            return security_of(self._newest_config(), *config.controller_login)

        apis = apis_of(config)
        real = isinstance(self._disk, RealDisk) and not is_inline()
        lifecycle = NodeLifecycle(
            config,
            Platform(
                self._disk,
                dirs,
                self._clock,
                self._random,
                _remote_storage(config),
                InProcess() if real else None,
            ),
            Listeners(
                NetPeers(nursery, client_id=client_id, security=broker_security),
                [(api.key, *api.versions) for api in apis],
                [one.advertised for one in listeners if one not in controllers],
            ),
            Listeners(
                NetPeers(nursery, client_id=client_id, security=controller_security),
                [(api.key, *api.versions) for api in CONTROLLER_APIS],
                [one.advertised for one in controllers],
            ),
            dispatch=dispatch,
            leadership=leadership,
        )
        faults = lifecycle.broker.faults
        apis = apis if faults is None else with_faults(apis, faults)
        server = Server(lifecycle.broker, apis, config)
        return Parts(listeners, controllers, lifecycle, server)


def _remote_storage(config: BrokerConfig) -> RemoteStorage | None:
    """Return the store of remote segments, if the broker has one. Raises StartError."""
    if not config.remote_log_storage_system_enable or not config.is_broker:
        return None
    assert config.pk_remote_url is not None
    try:
        return open_storage(config.pk_remote_url, store_options(config))
    except RemoteStorageError as e:
        raise StartError(f"pk.remote.url: {e}") from e


async def _serve(parts: Parts, nursery: trio.Nursery) -> None:
    """Start the node's lifecycle and serve the listeners. Listeners that other nodes need for their
    own start are served first and those of clients last, as in Apache Kafka: until the broker is
    unfenced, the image has no live broker. Clients that connect earlier wait, since the listeners
    are already bound."""
    lifecycle, server = parts.lifecycle, parts.server
    lifecycle.broker.start(nursery)
    for one in parts.controllers:
        await nursery.start(server.serve, one.name, one.listeners, CONTROLLER_APIS)
    await nursery.start(_run_lifecycle, lifecycle)
    await lifecycle.serve()
    for one in parts.listeners:
        if one not in parts.controllers:
            await nursery.start(server.serve, one.name, one.listeners)


async def _import_lazy_modules() -> None:
    """Import the modules that no request has needed so far, in a thread: after the first clients
    have connected, and before the files are replaced."""
    await trio.sleep(LAZY_IMPORT_AFTER_S)
    await offload(import_all)


async def _run_lifecycle(lifecycle: NodeLifecycle, *, task_status: trio.TaskStatus[None]) -> None:
    await lifecycle.run(task_status=task_status)


async def run_node(
    config: BrokerConfig,
    *,
    disk: Disk | None = None,
    ready: Callable[[Node], None],
    parent: int | None = None,
) -> int | None:
    """Run a node until SIGINT, SIGTERM or SIGHUP (unless that is ignored), which drain it. A second
    signal ends the process at once, except SIGHUP, which may arrive twice when a shell and its
    terminal close. Under a service manager (NOTIFY_SOCKET), the node reports when it is ready and
    when it stops, and SIGHUP reloads the TLS files instead.

    `ready` is called when the node serves clients. `parent` is a pipe from the parent process; when
    it closes, the node drains too. Returns the number of the signal that ended it; None if its
    parent ended. Raises StartError, LogDirError.
    """
    serves = False

    def served(node: Node) -> None:
        nonlocal serves
        # Freeze the existing objects too: scanning all of them finds no garbage and takes seconds
        # with 50,000 partitions. So frequent collections begin only now.
        gc.collect(0)
        gc.freeze()
        starting.close()
        ready(node)
        serves = True
        manager.ready()

    gc.freeze()  # modules stay: a full collection would scan them all, for 20 ms
    node = Node(config, disk=disk)
    manager = ServiceManager()
    ended_by: int | None = None
    with (
        _unwrap_start_error(),
        short_collections(),
        short_switches(),
        ExitStack() as starting,
        trio.open_signal_receiver(*shutdown_signals()) as signals,
    ):
        starting.enter_context(rare_collections())
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal ended_by
                async for number in signals:
                    if number == signal.SIGHUP and manager:
                        # A node that is not ready yet, or is stopping, must not notify that it is
                        # ready.
                        is_ready = serves and not node.stopping
                        if is_ready:
                            manager.reloading()
                        await node.reload_tls_files()
                        if is_ready:
                            manager.ready()
                        continue
                    manager.stopping()
                    ended_by = ended_by or number
                    if number == signal.SIGHUP:
                        # The signal may arrive twice: it is no second Ctrl-C.
                        redirect_closed_terminal()
                    elif node.stopping:
                        nursery.cancel_scope.cancel()
                    node.stop()

            async def end_with_parent(pipe: int) -> None:
                await trio.lowlevel.wait_readable(pipe)
                node.stop()

            nursery.start_soon(watch)
            if parent is not None:
                nursery.start_soon(end_with_parent, parent)
            await node.run(served)
            nursery.cancel_scope.cancel()
    return ended_by


@contextmanager
def _unwrap_start_error() -> Generator[None]:
    """Unwrap an error for the operator from the exception groups of nurseries."""
    try:
        yield
    except BaseExceptionGroup as group:
        reasons, _ = group.split((StartError, LogDirError))
        if reasons is None:
            raise
        first: BaseException = reasons
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
