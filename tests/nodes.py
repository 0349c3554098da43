"""Whole nodes in this process, one or a cluster: real sockets on loopback, a disk in memory unless
one is given."""

from __future__ import annotations

import functools
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ParamSpec

import trio
from clients.apache_kafka import free_ports

from pk.core.broker.broker import Broker
from pk.core.broker.controller.active_controller import Decide
from pk.core.broker.controller.controller import Controller
from pk.core.config import BrokerConfig
from pk.core.log.files import Disk
from pk.core.log.memory_disk import MemoryDisk
from pk.core.meta.image import MetadataImage
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pk.net.node import Node

P = ParamSpec("P")
TEST_S = 120


def trio_test(function: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in trio; it has two minutes."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            with trio.fail_after(TEST_S):
                await function(*args, **kwargs)

        trio.run(main)

    return run


def config_of(directory: str = "/data", **keys: str) -> BrokerConfig:
    """A config for one broker on any port; in `keys` a dot is two underscores."""
    given = {
        "node.id": "1",
        "log.dirs": directory,
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    given |= {name.replace("__", "."): value for name, value in keys.items()}
    return BrokerConfig.parse(given)


@asynccontextmanager
async def running_node(disk: Disk | None = None, **keys: str) -> AsyncIterator[Node]:
    """A node that serves; drained at the end."""
    node = Node(config_of(**keys), disk=disk if disk is not None else MemoryDisk())
    async with trio.open_nursery() as nursery:
        ready = trio.Event()
        nursery.start_soon(node.run, lambda _: ready.set())
        await ready.wait()
        yield node
        node.stop()


def controller_of(broker: Broker) -> Controller:
    """The controller in the broker's own process."""
    assert broker.cluster.controller is not None
    return broker.cluster.controller


async def decide(broker: Broker, decide: Decide) -> Any:
    """Has the controller in the broker's own process decide. Returns its reply when the broker has
    applied the decision."""
    controller = controller_of(broker)
    reply = await controller.submit(decide)
    offset = controller.image.offset
    await broker.purgatory.until(
        lambda: broker.image.offset >= offset, (MetadataImage,), float("inf")
    )
    return reply


@contextmanager
def refusing() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses connections until the block ends. A released port might be
    reused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # without listening
        yield held.getsockname()[1]


class Caller:
    """A raw connection to a node: one request at a time, or bytes as they are."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._correlation_id = 0
        self._data = bytearray()

    async def call(self, request: Any, version: int) -> Any:
        """Sends a request and returns its response."""
        await self.send(request, version)
        return await self.receive(request.API_KEY, version)

    async def send(self, request: Any, version: int) -> int:
        """Sends a request and returns its correlation id."""
        self._correlation_id += 1
        await self.stream.send_all(frame_request(request, version, self._correlation_id, "test"))
        return self._correlation_id

    async def receive(self, api_key: int, version: int) -> Any:
        """Read the next response."""
        frame = await self.receive_frame()
        correlation_id, position = parse_response_header(frame, api_key, version)
        self.last_correlation_id = correlation_id
        return decode_whole(MESSAGES[api_key].response, frame, version, position)

    async def receive_frame(self) -> bytes:
        """The next frame, without its size. Raises EOFError at the end."""
        await self._fill(4)
        size = int.from_bytes(self._data[:4], "big")
        await self._fill(4 + size)
        frame = bytes(self._data[4 : 4 + size])
        del self._data[: 4 + size]
        return frame

    async def at_end(self) -> bool:
        """Waits until the broker sends something or closes the connection. Returns whether it
        closed it."""
        try:
            return not await self.stream.receive_some()
        except trio.BrokenResourceError:
            return True

    async def _fill(self, count: int) -> None:
        while len(self._data) < count:
            data = await self.stream.receive_some(1 << 16)
            if not data:
                raise EOFError
            self._data += data


@asynccontextmanager
async def caller_of(node: Node) -> AsyncIterator[Caller]:
    """A connection to the node's first listener."""
    advertised = node.listeners[0].advertised
    stream = await trio.open_tcp_stream(advertised.host, advertised.port)
    async with stream:
        yield Caller(stream)


NewTopics = Mapping[str, tuple[int, dict[str, str]]]
"""Topics to create: their partitions and configs by name. In the configs a dot is two
underscores."""


async def make_topic(caller: Caller, name: str, partitions: int = 1, **configs: str) -> bytes:
    """Creates a topic and returns its id. In `configs` a dot is two underscores."""
    return (await make_topics(caller, {name: (partitions, configs)}))[name]


async def make_topics(caller: Caller, topics: NewTopics) -> dict[str, bytes]:
    """Creates topics with one request and returns their ids by name."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreatableTopicConfig(name=key.replace("__", "."), value=value)
                    for key, value in configs.items()
                ],
            )
            for name, (partitions, configs) in topics.items()
        ]
    )
    response = await caller.call(request, 7)
    assert not any(topic.error_code for topic in response.topics), response
    return {topic.name: topic.topic_id for topic in response.topics}


class Cluster:
    """A controller (node 0) and brokers from 1 on in this process: each a node on real sockets,
    with a disk in memory."""

    CONTROLLER = 0

    def __init__(self, nursery: trio.Nursery, keys: dict[str, str]) -> None:
        self._nursery = nursery
        self._keys = keys
        self.nodes: dict[int, Node] = {}
        """The nodes that are running."""
        self.disks: dict[int, MemoryDisk] = {}
        self._ports: dict[int, int] = {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self._ended: dict[int, trio.Event] = {}

    @property
    def controller(self) -> Node:
        return self.nodes[self.CONTROLLER]

    @property
    def image(self) -> MetadataImage:
        """The controller's image of the cluster."""
        assert self.controller.broker.cluster.controller is not None
        return self.controller.broker.cluster.controller.image

    def config(self, node_id: int, **keys: str) -> BrokerConfig:
        """The config of a node. A node keeps its port."""
        address = f"127.0.0.1:{self._port(node_id)}"
        given = {"node__id": str(node_id), "controller__listener__names": "CONTROLLER"}
        if node_id == self.CONTROLLER:
            given |= {"process__roles": "controller", "listeners": f"CONTROLLER://{address}"}
        else:
            where = f"127.0.0.1:{self._port(self.CONTROLLER)}"
            given |= {"process__roles": "broker", "listeners": f"PLAINTEXT://{address}"}
            given["controller__quorum__bootstrap__servers"] = where
        return config_of(**given | self._keys | keys)

    def _port(self, node_id: int) -> int:
        """The node's port, which stays reserved while the node is down."""
        if node_id not in self._ports:
            (self._ports[node_id],) = free_ports(1)
        return self._ports[node_id]

    async def start(self, node_id: int, **keys: str) -> Node:
        """Start a node; returns when it serves."""
        disk = self.disks.setdefault(node_id, MemoryDisk())
        node = Node(self.config(node_id, **keys), disk=disk)
        ready, ended, scope = trio.Event(), trio.Event(), trio.CancelScope()

        async def run() -> None:
            try:
                with scope:
                    await node.run(lambda _: ready.set())
            finally:
                ended.set()

        self._nursery.start_soon(run)
        await ready.wait()
        self.nodes[node_id] = node
        self._scopes[node_id], self._ended[node_id] = scope, ended
        self._ports[node_id] = node.listeners[0].advertised.port
        return node

    async def stop(self, node_id: int) -> None:
        """Drain a node."""
        self.nodes[node_id].stop()
        await self._ended[node_id].wait()
        del self.nodes[node_id]

    async def crash(self, node_id: int) -> None:
        """End a node like a kill. Written bytes stay, and nothing is closed."""
        self._scopes[node_id].cancel()
        await self._ended[node_id].wait()
        del self.nodes[node_id]

    async def until(self, holds: Callable[[MetadataImage], bool]) -> MetadataImage:
        """Waits until the condition holds for the controller's image."""
        assert self.controller.broker.cluster.controller is not None
        while not holds(self.image):
            await self.controller.broker.cluster.controller.feed.wait_for_event(
                self.image.offset, trio.current_time() + 1
            )
        return self.image


@asynccontextmanager
async def running_cluster(brokers: int = 3, **keys: str) -> AsyncIterator[Cluster]:
    """A running cluster, whose nodes are killed at the end. Every node gets `keys`, in which two
    underscores stand for a dot."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery, keys)
        await cluster.start(cluster.CONTROLLER)
        async with trio.open_nursery() as starting:
            for node_id in range(1, brokers + 1):
                starting.start_soon(cluster.start, node_id)
        yield cluster
        nursery.cancel_scope.cancel()
