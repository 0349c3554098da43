"""A node: the one place where a broker is put together and taken apart.

Up, in this order: hold the log directories; load the metadata; bind the listeners (only now is a port of 0 a number that
can be told to others); register with the controller; open the logs the image names; serve. Down, in the other: stop
accepting, answer what is in flight, stop the coordinators, make everything durable, leave the mark of a clean end.
"""

from __future__ import annotations

import logging
import platform
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random, SystemRandom

import trio

from pk.core.api.index import APIS
from pk.core.broker.broker import Broker
from pk.core.broker.cleaner import Cleaner, InThread
from pk.core.broker.clock import Clock, SystemClock
from pk.core.broker.controller import Controller
from pk.core.broker.coordinators import GroupCoordinators
from pk.core.broker.metadata_log import DIRECTORY as METADATA_DIRECTORY
from pk.core.broker.metadata_log import EmbeddedStore
from pk.core.broker.offload import THREADS_PER_DIRECTORY, is_inline, offload
from pk.core.broker.producer_ids import ProducerIds
from pk.core.broker.retainer import Retainer
from pk.core.broker.upkeep import Upkeep
from pk.core.config import BrokerConfig, unsupported_keys
from pk.core.errors import KafkaError, error_name
from pk.core.log.dirs import LogDirs, cluster_of
from pk.core.log.disk import RealDisk, this_process
from pk.core.log.failures import LogDirBroken, LogDirError, StorageError
from pk.core.log.files import Disk
from pk.core.meta.controller import allocate_producer_ids, register_broker
from pk.core.meta.store import StoreFailed
from pk.core.values import TopicPartition, Uuid, uuid_text
from pk.core.wire.messages.broker_registration import BrokerRegistrationRequest
from pk.core.wire.messages.broker_registration import Listener as RegisteredListener
from pk.net.compactor import InProcess
from pk.net.endpoints import BoundListener, StartError, bind
from pk.net.server import Server

logger = logging.getLogger("pk.node")

DRAIN_S = 5.0
"""How long answers that are owed may take to leave when the node ends."""

PATIENCE = 0.2
"""The share of it after which those who wait for their group are sent away."""


class Node:
    """One broker with its controller, in one process."""

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
        self._cluster_id = ""
        self._store: EmbeddedStore
        self.broker: Broker
        self.server: Server
        self.listeners: list[BoundListener] = []

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
        if given := unsupported_keys(config.static):
            logger.warning("these keys steer features that pk has not yet: %s", ", ".join(given))
        dirs = await self._hold_directories()
        clean = False
        high_watermarks: dict[TopicPartition, int] = {}
        try:
            self.listeners = await bind(config)
            async with trio.open_nursery() as nursery:
                upkeep = await self._start(dirs, nursery)
                server = self.server = Server(self.broker, APIS, config)
                for listener in self.listeners:
                    await nursery.start(server.serve, listener.name, listener.listeners)
                nursery.start_soon(self._watch)
                ready(self)
                await self._stopping.wait()
                await server.drain(DRAIN_S * PATIENCE)
                await self.broker.coordinators.stop()
                await server.drain(DRAIN_S * (1 - PATIENCE))
                high_watermarks = upkeep.high_watermarks()
                nursery.cancel_scope.cancel()
            clean = True
        finally:
            with trio.CancelScope(shield=True):
                for listener in self.listeners:
                    for one in listener.listeners:
                        await trio.aclose_forcefully(one)
                await self._close(dirs, high_watermarks, clean)

    async def _watch(self) -> None:
        """End with a reason when the broker cannot go on. Nothing is marked as clean then."""
        await self.broker.doomed.wait()
        raise LogDirBroken(
            self._config.log_dirs[0], f"The broker stopped: {self.broker.doomed_because}."
        )

    async def _control(
        self, controller: Controller, broker: Broker, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Run the controller. A broker without one could do nothing right for long."""
        await controller.run(broker.publish, task_status=task_status)
        broker.doom("the metadata log failed, so there is no controller")

    async def _hold_directories(self) -> LogDirs:
        config, paths = self._config, list(self._config.log_dirs)

        def hold() -> LogDirs:
            cluster_id = cluster_of(self._disk, paths) or uuid_text(self._new_id())
            self._cluster_id = cluster_id
            return LogDirs.open(
                self._disk,
                paths,
                cluster_id=cluster_id,
                node_id=config.node_id,
                holder=this_process(),
                new_id=self._new_id,
            )

        try:
            return await offload(hold)
        except OSError as e:
            raise LogDirBroken(paths[0], f"The log directories cannot be used: {e}.") from e

    def _metadata_directory(self, dirs: LogDirs) -> str:
        """Where the metadata log lies: the first directory of `log.dirs`, or that in which it was found.

        Raises StartError rather than begin an empty one while the directory that may hold it is out of service.
        """
        for directory in dirs.usable:
            if self._disk.exists(f"{directory.path}/{METADATA_DIRECTORY}"):
                return directory.path
        failed = [directory.path for directory in dirs.directories if directory.failed]
        if failed:
            raise StartError(
                f"the metadata log is in none of the log directories that work; {', '.join(failed)} may hold it"
            )
        return dirs.usable[0].path

    def _new_id(self) -> Uuid:
        """An id that nobody has: 128 random bits, none that prints with a leading dash."""
        while (value := self._random.randbytes(16))[0] >> 2 == 62:
            pass
        return value

    async def _start(self, dirs: LogDirs, nursery: trio.Nursery) -> Upkeep:
        """Put the broker together, and bring it to where the metadata log is."""
        config, node_id = self._config, self._config.node_id
        path = self._metadata_directory(dirs)
        store = self._store = EmbeddedStore(self._disk, path, self._clock.now_ms)
        controller = Controller(
            store, node_id, snapshot_bytes=config.pk_metadata_log_bytes_between_snapshots
        )
        try:
            await controller.open(self._cluster_id)
        except (StoreFailed, KafkaError) as e:
            raise StartError(f"the metadata log in {path} cannot be used: {e}") from e
        broker = self.broker = Broker(
            config,
            node_id=node_id,
            cluster_id=self._cluster_id,
            dirs=dirs,
            clock=self._clock,
            random=self._random,
            served=[(api.key, *api.versions) for api in APIS],
        )
        broker.controller = controller
        broker.coordinators = GroupCoordinators(broker)
        broker.followers.append(broker.coordinators.apply)
        broker.start(nursery)
        broker.producer_ids = ProducerIds(
            lambda: controller.submit(
                lambda image: allocate_producer_ids(image, node_id, broker.broker_epoch)
            )
        )
        await nursery.start(self._control, controller, broker)
        await self._register(broker, dirs)
        known = {
            TopicPartition(topic.name, partition.partition)
            for topic in broker.image.topics.values()
            for partition in topic.partitions
            if node_id in partition.replicas
        }
        try:
            await offload(dirs.rename_strays, known)
        except StorageError as e:
            broker.replicas.storage_failed(e)
        broker.replicas.remove_leftovers()
        broker.mover.resume()
        upkeep = Upkeep(broker.replicas, dirs, config)
        nursery.start_soon(upkeep.run)
        nursery.start_soon(Retainer(broker.replicas, config).run)
        real = isinstance(self._disk, RealDisk) and not is_inline()
        compactor = InProcess() if real else InThread(self._disk)
        nursery.start_soon(Cleaner(broker.replicas, lambda: broker.config, compactor).run)
        return upkeep

    async def _register(self, broker: Broker, dirs: LogDirs) -> None:
        """Tell the controller that this broker is here, and where it listens."""
        request = BrokerRegistrationRequest(
            broker_id=broker.node_id,
            cluster_id=broker.cluster_id,
            incarnation_id=self._new_id(),
            listeners=[
                RegisteredListener(
                    name=listener.name,
                    host=listener.advertised.host,
                    port=listener.advertised.port,
                    security_protocol=listener.advertised.security_protocol,
                )
                for listener in self.listeners
            ],
            rack=self._config.broker_rack,
            log_dirs=[directory.directory_id for directory in dirs.usable],
            previous_broker_epoch=dirs.clean_broker_epoch,
        )
        answer = await broker.controller.submit(
            lambda image: register_broker(image, request, self._config, fenced=False)
        )
        if answer.error_code:
            raise StartError(
                f"the controller refused broker {broker.node_id}: {error_name(answer.error_code)}"
            )
        broker.broker_epoch = answer.broker_epoch

    async def _close(
        self, dirs: LogDirs, high_watermarks: dict[TopicPartition, int], clean: bool
    ) -> None:
        """Make everything durable; after a fault of ours, only give the locks back."""
        if not hasattr(self, "broker"):
            await offload(dirs.release)
            return
        try:
            await self._store.close()
        except StoreFailed as e:
            logger.error("the metadata log was not closed cleanly: %s", e)
        if clean:
            await offload(self._close_logs, dirs, high_watermarks)
        else:
            await offload(dirs.release)

    def _close_logs(self, dirs: LogDirs, high_watermarks: dict[TopicPartition, int]) -> None:
        """In a thread, and in more of them where those have something to wait for."""
        threads = 1 if is_inline() else THREADS_PER_DIRECTORY
        dirs.close(high_watermarks, self.broker.broker_epoch, threads=threads)


async def run_node(
    config: BrokerConfig, *, disk: Disk | None = None, ready: Callable[[Node], None]
) -> None:
    """Run a node until SIGINT or SIGTERM, which drain it; a second signal ends it at once.

    `ready` is called when it serves. Raises StartError, LogDirError.
    """
    node = Node(config, disk=disk)
    with _one_reason(), trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async for _ in signals:
                    if node.stopping:
                        nursery.cancel_scope.cancel()
                    node.stop()

            nursery.start_soon(watch)
            await node.run(ready)
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
