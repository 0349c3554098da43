"""A cluster in this process: nodes that talk over real sockets on loopback, disks in memory. A
controller of its own, or, with ZooKeeper, brokers that take turns at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
from clients.apache_kafka import free_ports
from nodes import Caller, caller_of

from pk.core.config import BrokerConfig
from pk.core.log.memory_disk import MemoryDisk
from pk.core.meta.image import MetadataImage
from pk.net.node import Node

CONTROLLER = 100
COMMON = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "500",
}


@dataclass
class Cluster:
    """Nodes by id: the controller's is `CONTROLLER`, brokers' are from 1; with ZooKeeper, brokers
    only."""

    nursery: trio.Nursery
    keys: dict[str, str]
    nodes: dict[int, Node] = field(default_factory=dict)
    disks: dict[int, MemoryDisk] = field(default_factory=dict)
    scopes: dict[int, trio.CancelScope] = field(default_factory=dict)
    ended: dict[int, trio.Event] = field(default_factory=dict)
    _ports: dict[int, int] = field(default_factory=dict)

    @property
    def controller(self) -> Node:
        """The node of the controller."""
        return self.nodes[self.controller_id]

    @property
    def controller_id(self) -> int:
        """The node of the active controller, or `CONTROLLER` if there is none."""
        for node_id, node in self.nodes.items():
            controller = node.broker.cluster.controller
            if controller is not None and controller.active:
                return node_id
        return CONTROLLER

    @property
    def image(self) -> MetadataImage:
        """The image that the controller has committed."""
        controller = self.controller.broker.cluster.controller
        assert controller is not None
        return controller.image

    async def start(self, node_id: int) -> Node:
        """Starts a node, or restarts it on its disk. Returns when it serves."""
        config = self._config(node_id)
        disk = self.disks.setdefault(node_id, MemoryDisk())
        node = self.nodes[node_id] = Node(config, disk=disk)
        ready = trio.Event()
        self.nursery.start_soon(self._run, node_id, node, ready)
        await ready.wait()
        return node

    async def _run(self, node_id: int, node: Node, ready: trio.Event) -> None:
        ended = self.ended[node_id] = trio.Event()
        with trio.CancelScope() as scope:
            self.scopes[node_id] = scope
            await node.run(lambda _: ready.set())
        ended.set()

    async def kill(self, node_id: int) -> None:
        """End a node like kill -9. Its disk keeps written bytes."""
        del self.nodes[node_id]
        self.scopes[node_id].cancel()
        await self.ended[node_id].wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition that the test then asserts. The test's own timeout limits it."""
        while not condition():  # noqa: ASYNC110 - of all the nodes, and not everything tells
            await trio.sleep(0.005)

    def _port(self, node_id: int) -> int:
        """The node's port, which stays reserved while the node is down."""
        if node_id not in self._ports:
            (self._ports[node_id],) = free_ports(1)
        return self._ports[node_id]

    def _config(self, node_id: int) -> BrokerConfig:
        port = self._port(node_id)
        given = {**COMMON, "node.id": str(node_id), "log.dirs": "/data"}
        if "pk.metadata.store" in self.keys:
            given |= {
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
            }
        elif node_id == CONTROLLER:
            given |= {
                "process.roles": "controller",
                "listeners": f"CONTROLLER://127.0.0.1:{port}",
            }
        else:
            given |= {
                "process.roles": "broker",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._port(CONTROLLER)}",
            }
        return BrokerConfig.parse(given | self.keys)


@asynccontextmanager
async def running_cluster(brokers: int = 2, **keys: str) -> AsyncIterator[Cluster]:
    """A controller and `brokers` brokers, killed at the end. Two underscores in a name of `keys`
    stand for a dot.

    If the controller has a separate node, all brokers have finished their start: nothing more is
    committed unless the test does something.
    """
    given = {name.replace("__", "."): value for name, value in keys.items()}
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery, given)
        if "pk.metadata.store" not in given:
            await cluster.start(CONTROLLER)
        for node_id in range(1, brokers + 1):
            await cluster.start(node_id)
        if CONTROLLER in cluster.nodes:  # it registers itself in the background
            await cluster.until(lambda: CONTROLLER in cluster.image.controllers)
        yield cluster
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def caller(cluster: Cluster, node_id: int) -> AsyncIterator[Caller]:
    """A raw connection to a node of the cluster."""
    async with caller_of(cluster.nodes[node_id]) as one:
        yield one
