"""A node: the one place where a broker, a controller or both are put together and taken apart.

Up, in this order: hold the log directories; bind the listeners (only now is a port of 0 a number that can be told to others);
serve the controller's listener; start the runtime, which loads or follows the metadata, registers the broker and opens its
logs; serve clients. Down, in the other: hand leadership over, stop accepting, answer what is in flight, stop the
coordinators, make everything durable, leave the mark of a clean end.

What runs on whatever disk and connections it is given is `core/broker/runtime.py`; here are sockets, signals and the machine.
"""

from __future__ import annotations

import gc
import logging
import platform
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random, SystemRandom

import trio

from pk.core.api.index import APIS, CONTROLLER_APIS, dispatch
from pk.core.broker.broker import Broker
from pk.core.broker.clock import Clock, SystemClock
from pk.core.broker.controller.controller_link import Locator
from pk.core.broker.offload import is_inline
from pk.core.broker.runtime import Runtime, hold_directories
from pk.core.config import BrokerConfig, ConfigError, unsupported_keys
from pk.core.config.roles import EMBEDDED
from pk.core.config.security_promises import check_security
from pk.core.log.dirs import LogDirs
from pk.core.log.disk import RealDisk, this_process
from pk.core.log.failures import LogDirError
from pk.core.log.files import Disk
from pk.core.meta.store import MetadataStore
from pk.net.collector import short_collections
from pk.net.compactor import InProcess
from pk.net.endings import drop_dead_terminal, ending_signals
from pk.net.endpoints import BoundListener, StartError, bind
from pk.net.peers import NetPeers
from pk.net.server import Server

logger = logging.getLogger("pk.node")

Closing = Callable[[], Awaitable[None]]


class Node:
    """One process of a cluster."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """`disk` and the rest default to the machine's. Raises StartError where the machine is not fit."""
        if platform.system() not in ("Linux", "Darwin"):
            raise StartError(f"pk runs on Linux and macOS, not on {platform.system()}")
        self._config = config
        self._disk = disk if disk is not None else RealDisk()
        self._clock = clock if clock is not None else SystemClock()
        self._random = random if random is not None else SystemRandom()
        self._stopping = trio.Event()
        self._let_go: Closing | None = None
        """Closes what the runtime does not know of."""
        self.runtime: Runtime
        self.server: Server
        self.listeners: list[BoundListener] = []
        """In the order of `listeners`; those of controllers too."""

    @property
    def broker(self) -> Broker:
        """The broker; it exists once the listeners are bound."""
        return self.runtime.broker

    @property
    def address(self) -> str:
        """Where clients reach the node; of one that is a controller only, where others do."""
        names = [listener.name for listener in self._config.broker_listeners]
        ours = [one for one in self.listeners if one.name in names]
        return (ours or self.listeners)[0].address

    @property
    def controller_address(self) -> str | None:
        """Where other nodes reach the controller in this process; None where it has no listener of its own."""
        found = self._controllers()
        return found[0].address if found else None

    @property
    def stopping(self) -> bool:
        """Whether the end has begun."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Begin the end: `run` returns when everything is drained and durable."""
        self._stopping.set()

    async def run(self, ready: Callable[[Node], None]) -> None:
        """Start, call `ready`, serve until `stop`. Raises StartError, LogDirError."""
        config = self._config
        try:
            check_security(config)
        except ConfigError as e:
            raise StartError(str(e)) from None
        if given := unsupported_keys(config.static):
            logger.warning("ignored, not implemented: %s", ", ".join(given))
        dirs = await hold_directories(config, self._disk, self._random, holder=this_process())
        runtime: Runtime | None = None
        clean = False
        try:
            self.listeners = await bind(config)
            async with trio.open_nursery() as nursery:
                runtime = self.runtime = self._runtime(dirs, nursery)
                with trio.CancelScope() as starting:
                    # Whoever is told to stop while it waits for a controller does not wait on.
                    nursery.start_soon(self._cancel_when_stopping, starting)
                    await self._serve(nursery)
                    ready(self)
                if not starting.cancelled_caught:
                    await self._stopping.wait()
                    await runtime.stop(self.server.drain)
                nursery.cancel_scope.cancel()
            clean = True
        finally:
            with trio.CancelScope(shield=True):
                for listener in self.listeners:
                    for one in listener.listeners:
                        await trio.aclose_forcefully(one)
                if self._let_go is not None:
                    await self._let_go()
                if runtime is not None:
                    await runtime.close(clean=clean)
                else:
                    dirs.release()

    async def _cancel_when_stopping(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()

    def _controllers(self) -> list[BoundListener]:
        names = self._config.controller_listener_names
        return [listener for listener in self.listeners if listener.name in names]

    def _runtime(self, dirs: LogDirs, nursery: trio.Nursery) -> Runtime:
        config, controllers = self._config, self._controllers()
        store, locator, self._let_go = _office(config, controllers)
        real = isinstance(self._disk, RealDisk) and not is_inline()
        return Runtime(
            config,
            dirs=dirs,
            disk=self._disk,
            clock=self._clock,
            random=self._random,
            peers=NetPeers(nursery, client_id=f"pk-node-{config.node_id}"),
            dispatch=dispatch,
            served=[(api.key, *api.versions) for api in APIS],
            controller_served=[(api.key, *api.versions) for api in CONTROLLER_APIS],
            store=store,
            locator=locator,
            endpoints=[one.advertised for one in self.listeners if one not in controllers],
            controller_endpoints=[one.advertised for one in controllers],
            compactor=InProcess() if real else None,
        )

    async def _serve(self, nursery: trio.Nursery) -> None:
        """Start the runtime and open the listeners. What others need to start themselves opens first."""
        runtime, controllers = self.runtime, self._controllers()
        server = self.server = Server(runtime.broker, APIS, self._config)
        runtime.broker.start(nursery)
        for one in controllers:
            await nursery.start(server.serve, one.name, one.listeners, CONTROLLER_APIS)
        await nursery.start(self._run_runtime)
        for one in self.listeners:
            if one not in controllers:
                await nursery.start(server.serve, one.name, one.listeners)
        await runtime.serve()

    async def _run_runtime(self, *, task_status: trio.TaskStatus[None]) -> None:
        await self.runtime.run(task_status=task_status)


def _office(
    config: BrokerConfig, controllers: list[BoundListener]
) -> tuple[MetadataStore | None, Locator | None, Closing | None]:
    """What lets this node campaign, and find who won, and what closes that; nothing of it where the store is embedded.
    Raises StartError."""
    address = config.pk_metadata_store
    if address == EMBEDDED:
        return None, None, None
    try:
        from pk.net.zookeeper import ZooKeeperStore
        from pk.net.zookeeper_locator import ZooKeeperLocator
        from pk.net.zookeeper_session import ZooKeeperSession, parse_address
    except ModuleNotFoundError as e:
        if e.name != "kazoo":
            raise
        raise StartError(
            "pk.metadata.store names ZooKeeper, whose client is not installed: pip install 'pk-broker[zookeeper]'"
        ) from e
    timeout_ms = config.pk_zookeeper_session_timeout_ms
    try:
        if config.is_controller:
            store = ZooKeeperStore(
                address,
                config.node_id,
                controllers[0].advertised,
                session_timeout_ms=timeout_ms,
            )
            return store, store.locator, None  # the runtime closes its store
        hosts, root = parse_address(address)
    except ValueError as e:
        raise StartError(f"pk.metadata.store: {e}") from e
    session = ZooKeeperSession(hosts, session_timeout_ms=timeout_ms)
    return None, ZooKeeperLocator(session, root), session.close


async def run_node(
    config: BrokerConfig,
    *,
    disk: Disk | None = None,
    ready: Callable[[Node], None],
    parent: int | None = None,
) -> None:
    """Run a node until SIGINT, SIGTERM or SIGHUP (unless that is ignored), which drain it; a second one ends it at once, but
    for SIGHUP, which comes twice where a shell goes with its terminal.

    `ready` is called when it serves. `parent` is a pipe whose end is the parent's, and drains the node too. Raises
    StartError, LogDirError.
    """

    def served(node: Node) -> None:
        # What is there now stays: a full collection would look through all of it, some 5 ms each time.
        gc.collect()
        gc.freeze()
        ready(node)

    node = Node(config, disk=disk)
    with (
        _one_reason(),
        short_collections(),
        trio.open_signal_receiver(*ending_signals()) as signals,
    ):
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async for number in signals:
                    if number == signal.SIGHUP:
                        drop_dead_terminal()  # and told of it twice, perhaps: no second Ctrl-C
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


@contextmanager
def _one_reason() -> Iterator[None]:
    """Let a reason that the operator is to read out of the groups that nurseries wrap it in."""
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
