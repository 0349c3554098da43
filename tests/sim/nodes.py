"""A simulated node: a disk that stays, and on it one process after another, each a `NodeLifecycle`
like any other node's."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

import trio
from sim.chronicle import Violation
from sim.deals import Book, DealCoordinators
from sim.disk import ProcessDisk, SimDisk
from sim.history import History
from sim.network import End, Network, SimTransport
from sim.peers import SimPeers
from sim.processes import Process, child, owned_by
from sim.stores import Ensemble, EnsembleLocator, EnsembleStore, ObservedStore
from trio_clock import TrioClock

from pk.core.api.index import APIS, CONTROLLER_APIS, dispatch
from pk.core.api.registry import Api
from pk.core.broker.broker import Broker
from pk.core.broker.node_lifecycle import (
    Leadership,
    Listeners,
    NodeLifecycle,
    Platform,
    lock_directories,
)
from pk.core.broker.requests.context import Context
from pk.core.config import BrokerConfig
from pk.core.log.files import Disk
from pk.core.log.remote.storage import RemoteStorage
from pk.core.meta.events import Endpoint
from pk.net.connection.connection import Connection, Limits
from pk.net.frames import RequestMemory

BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
FRAME_BYTES_MAX: Final = 1 << 26
PARKED_MAX: Final = 64


class SimServer:
    """The counterpart of `net/server.py` without sockets: connections to one process, served until
    it drains."""

    def __init__(self, network: Network, process: Process, broker: Broker) -> None:
        self._network = network
        self._process = process
        self._broker = broker
        self._memory = RequestMemory(1 << 30)
        self._connections: dict[Connection, None] = {}
        self._ids = count(1)
        self._empty = trio.Event()

    def listen(self, nursery: trio.Nursery, port: int, listener: str, apis: Iterable[Api]) -> None:
        """Serve a port."""
        table = {api.key: api for api in apis}

        def accept(end: End) -> None:
            with owned_by(self._process):
                nursery.start_soon(self._serve, end, listener, table)

        self._network.listen(self._process, port, accept)

    async def _serve(self, end: End, listener: str, apis: dict[int, Api]) -> None:
        peer = end.peer.process
        context = Context(
            self._broker,
            client_host=f"/{peer.host}",
            listener=listener,
            connection_id=next(self._ids),
        )
        connection = Connection(
            SimTransport(end),
            apis,
            # No slice ends by the machine's clock: that would not be a function of the seed.
            Limits(self._memory, FRAME_BYTES_MAX, PARKED_MAX, math.inf),
            context,
            str(peer),
        )
        self._connections[connection] = None
        try:
            await connection.serve()
        finally:
            self._connections.pop(connection, None)
            for tell in self._broker.disconnected:
                tell(context.connection_id)
            if not self._connections:
                self._empty.set()

    async def drain(self, grace_s: float) -> None:
        """Take no more connections and requests; answers that are owed may leave."""
        self._network.unlisten(self._process)
        for connection in list(self._connections):
            connection.stop_reading()
        with trio.move_on_after(grace_s):
            while self._connections:
                self._empty = trio.Event()
                await self._empty.wait()


@dataclass(slots=True)
class World:
    """The parts that the nodes of one run share."""

    network: Network
    history: History
    nursery: trio.Nursery
    random: Random
    ensemble: Ensemble | None
    """The metadata store of clusters whose controller moves; None for the embedded one."""
    observe: Callable[[], None]
    """Checks the whole cluster before a process disappears with its state."""
    broken: Callable[[BaseException], None]
    """Called with an error that must end the run."""
    book: Book
    """The book of the deals that the nodes coordinate."""
    storage: Callable[[Process], RemoteStorage | None] = lambda process: None
    """The store of remote segments as a process sees it."""
    crashed: Callable[[SimNode], None] = lambda node: None
    """Called when a process has ended by itself, and not well."""


class SimNode:
    """One machine of the cluster."""

    def __init__(self, world: World, node_id: int, keys: Mapping[str, str]) -> None:
        self.node_id = node_id
        self.host = f"n{node_id}"
        self.config = BrokerConfig.parse(dict(keys))
        self.disk = SimDisk()
        self.process: Process | None = None
        self.lifecycle: NodeLifecycle | None = None
        self.deals: DealCoordinators | None = None
        self.ready = False
        """Whether the process serves, and the controller knows."""
        self.disk_failed = False
        """Whether the disk was made to fail: then the process may end by itself."""
        self._world = world
        self._incarnations = 0
        self._scope = trio.CancelScope()
        self._stopping = trio.Event()
        self.ended = trio.Event()
        """Set when the process is gone."""

    @property
    def up(self) -> bool:
        """Whether a process runs, or stands still."""
        return self.process is not None

    @property
    def broker(self) -> Broker | None:
        """The running broker, once there is one."""
        return self.lifecycle.broker if self.lifecycle is not None and self.up else None

    @property
    def is_active_controller(self) -> bool:
        """Whether it believes that it is the controller."""
        broker = self.broker
        return (
            broker is not None
            and broker.cluster.controller is not None
            and broker.cluster.controller.active
        )

    # --- faults ---

    def start(self) -> None:
        """Begin a process."""
        assert self.process is None
        self._incarnations += 1
        process = self.process = Process(self.host, self.host, self._incarnations)
        self._scope, self._stopping, self.ended = trio.CancelScope(), trio.Event(), trio.Event()
        self.ready = False
        world = self._world
        world.network.without_power.discard(self.host)
        world.network.release()
        world.history.chronicle.note(self.host, f"starts, incarnation {self._incarnations}")
        with owned_by(process):
            world.nursery.start_soon(self._live, process)

    def stop(self) -> None:
        """SIGTERM."""
        self._world.history.chronicle.note(self.host, "is asked to stop")
        self._stopping.set()

    def kill(self) -> None:
        """SIGKILL: written data stays on the disk."""
        self._end("is killed", power=False)
        self.disk.process_killed()

    def cut_power(self, random: Random) -> None:
        """The machine loses its power and its unsynced data."""
        self._end("loses its power", power=True)
        self.disk.power_cut(random)

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.process is not None
        self._world.history.chronicle.note(self.host, "stands still")
        self.process.freeze()

    def resume(self) -> None:
        """SIGCONT."""
        if self.process is not None and self.process.frozen:
            self._world.history.chronicle.note(self.host, "goes on")
            self.process.thaw()

    def _end(self, how: str, *, power: bool) -> None:
        process, world = self.process, self._world
        if process is not None:
            world.observe()
            world.history.chronicle.note(self.host, how)
            process.kill()
            self.process = None
            self._scope.cancel()
            world.history.forget(process)
            world.network.process_gone(process, power=power)
        if power:
            world.network.without_power.add(self.host)
        self.ready = False

    # --- its life ---

    async def _live(self, process: Process) -> None:
        ended, clean = self.ended, False
        try:
            with self._scope:
                clean = await self._run(process)
        except Violation as e:
            self._world.broken(e)
        except BaseExceptionGroup as group:
            if (violation := first_violation(group)) is not None:
                self._world.broken(violation)
            elif any(True for e in leaves(group) if not isinstance(e, Exception)):
                raise
            else:
                self._failed(process, leaves(group))
        except Exception as e:  # noqa: BLE001 - whatever ends a process is its node's history
            self._failed(process, [e])
        finally:
            if process.alive:
                self._world.history.chronicle.note(self.host, "ended" if clean else "is gone")
                process.kill()
                self._world.history.forget(process)
                self._world.network.process_gone(process, power=False)
                self.disk.process_killed()
                self.process = None
                self.ready = False
                if not clean:
                    self._world.crashed(self)
            ended.set()

    def _failed(self, process: Process, errors: list[BaseException]) -> None:
        if process.alive:
            text = "; ".join(f"{type(e).__name__}: {e}" for e in errors)
            self._world.history.chronicle.note(self.host, f"fails: {text}")
            for error in errors:
                if not self.disk_failed and self.disk.bytes_max is None:
                    self._world.broken(error)

    async def _run(self, process: Process) -> bool:
        """One process from its start to its end; whether that was a clean one."""
        world, config = self._world, self.config
        random = child(world.random, f"{self.host}.{process.incarnation}")
        disk: Disk = ProcessDisk(self.disk, process)
        dirs = await lock_directories(config, disk, random, holder=str(process))
        leadership, watch = self._leadership(process)
        peers = SimPeers(world.network, process)
        endpoint = Endpoint("PLAINTEXT", self.host, BROKER_PORT, 0)
        lifecycle = NodeLifecycle(
            config,
            Platform(disk, dirs, TrioClock(), random, world.storage(process)),
            Listeners(peers, served(APIS), [endpoint] if config.is_broker else []),
            Listeners(peers, served(CONTROLLER_APIS)),
            dispatch=dispatch,
            leadership=leadership,
        )
        self.lifecycle = lifecycle
        deals = self.deals = DealCoordinators(
            world.book, lifecycle.broker, process, child(random, "deals"), world.broken
        )
        server = SimServer(world.network, process, lifecycle.broker)
        clean = False
        try:
            async with trio.open_nursery() as nursery:
                lifecycle.broker.start(nursery)
                if watch is not None:
                    nursery.start_soon(watch)
                if config.is_controller:
                    server.listen(nursery, CONTROLLER_PORT, "CONTROLLER", CONTROLLER_APIS)
                await nursery.start(lifecycle.run)
                if config.is_broker:
                    server.listen(nursery, BROKER_PORT, "PLAINTEXT", APIS)
                await lifecycle.serve()
                self.ready = True
                if config.is_broker:
                    nursery.start_soon(deals.make_deals)
                await self._stopping.wait()
                await lifecycle.stop(server.drain)
                await deals.stop()
                nursery.cancel_scope.cancel()
            clean = True
        finally:
            if process.alive:
                world.observe()
            with trio.CancelScope(shield=True):
                await lifecycle.close(clean=clean)
        # One whose disk was too full to say that it ended well counts as crashed at its next start.
        return clean and not any(directory.failed for directory in dirs.directories)

    def _leadership(
        self, process: Process
    ) -> tuple[Leadership, Callable[[], Awaitable[None]] | None]:
        """The store of the metadata, and a task that must run for it."""
        world = self._world
        if world.ensemble is None:
            return Leadership(), None
        store = EnsembleStore(world.ensemble, process)

        def endpoint_of(node_id: int) -> Endpoint:
            return Endpoint("CONTROLLER", f"n{node_id}", CONTROLLER_PORT, 0)

        found = Leadership(
            ObservedStore(store, world.history, process),
            EnsembleLocator(world.ensemble, process, endpoint_of),
        )
        return found, store.watch


def served(apis: Iterable[Api]) -> list[tuple[int, int, int]]:
    """These APIs in the form of ApiVersions."""
    return [(api.key, *api.versions) for api in apis]


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions in a group, without the groups."""
    found: list[BaseException] = []
    for one in group.exceptions:
        found += leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found


def first_violation(error: BaseException) -> Violation | None:
    """The violation in an exception, wherever it is."""
    if isinstance(error, Violation):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((e for e in leaves(error) if isinstance(e, Violation)), None)
    return None
