"""A broker in memory, without sockets: its handlers are called with what came through the codec,
and answer through it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from inspect import isawaitable
from random import Random
from typing import Any

import trio
import trio.testing
from nodes import decide
from trio_clock import TrioClock

from pk.core.api.index import APIS as ALL_APIS
from pk.core.api.index import dispatch
from pk.core.broker.assembly import Environment, assemble
from pk.core.broker.background import Background
from pk.core.broker.broker import Broker
from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.controller_client import Client, ControllerClient, Forwarded
from pk.core.broker.controller.embedded_store import EmbeddedStore
from pk.core.broker.controller.static_locator import StaticLocator
from pk.core.broker.loop_time import reset_budget
from pk.core.broker.offload import inline
from pk.core.broker.peers import Channel, PeerLost
from pk.core.broker.requests.context import Context
from pk.core.broker.state import BrokerState
from pk.core.config import BrokerConfig
from pk.core.errors import KafkaError
from pk.core.log.log_dirs import LogDirs
from pk.core.log.memory_disk import MemoryDisk
from pk.core.machine import Decision
from pk.core.meta.brokers import register_broker
from pk.core.meta.controller import internal_topic
from pk.core.meta.events import ConfigChanged, PartitionChanged
from pk.core.meta.features import supported_features
from pk.core.meta.topics import create_topics
from pk.core.values import OFFSETS_TOPIC
from pk.core.wire.codec import decode_whole, encode
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.broker_registration import BrokerRegistrationRequest
from pk.core.wire.messages.broker_registration import Listener as RegisteredListener
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

APIS = {api.key: api for api in ALL_APIS}

CONFIG = {
    "node.id": "1",
    "log.dirs": "/data",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class TestBroker:
    """One broker, and a client of it."""

    __test__ = False

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def ask(self, request: Any, version: int | None = None, client_id: str = "c") -> Any:
        """The answer to a request, both as they look after the wire."""
        key = request.API_KEY
        api = APIS[key]
        version = api.versions[1] if version is None else version
        assert api.versions[0] <= version <= api.versions[1]
        received = decode_whole(type(request), bytearray(encode(request, version)), version)
        context = Context(self.broker, key, version, client_id=client_id, client_host="/127.0.0.1")
        try:
            answer: Any = api.handle(context, received)
            while isawaitable(answer):
                answer = await answer
        except KafkaError as e:
            answer = api.error_response(received, e, version)
        return decode_whole(type(answer), encode(answer, version), version)

    def ask_now(self, request: Any, version: int | None = None) -> Any:
        """The answer of a handler that has nothing to wait for."""
        api = APIS[request.API_KEY]
        context = Context(
            self.broker, api.key, version or api.versions[1], client_host="/127.0.0.1"
        )
        answer = api.handle(context, request)
        reset_budget()
        while isinstance(answer, Coroutine):
            try:
                answer.send(None)
            except StopIteration as done:
                answer = done.value
            else:
                raise AssertionError("the handler waits")
        return answer

    async def create_topics(self, *names: str) -> None:
        """Topics with one partition."""
        broker = self.broker
        request = CreateTopicsRequest(
            topics=[
                internal_topic(name, broker.config)
                or CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
                for name in names
            ]
        )
        await decide(
            broker, lambda image: create_topics(image, request, broker.config, broker.random)
        )
        await self.loaded()

    async def loaded(self) -> None:
        """Until no coordinator is loading."""
        broker = self.broker
        while any(
            c.state.value == "loading"
            for c in (
                *broker.groups.coordinators,
                *broker.groups.transactions,
                *broker.groups.share_coordinators,
            )
        ):
            await trio.testing.wait_all_tasks_blocked()

    async def elect(self, leader: int, partition: int = 0) -> None:
        """Have the controller give a partition of the offsets topic a leader."""
        topic_id = self.broker.image.topics[OFFSETS_TOPIC].topic_id
        event = PartitionChanged(topic_id, partition, leader=leader)
        await decide(self.broker, lambda image: Decision([event]))

    async def assign(self, replicas: tuple[int, ...], partition: int = 0) -> None:
        """Have the controller assign replicas to a partition of the offsets topic. The ISR does not
        change."""
        topic_id = self.broker.image.topics[OFFSETS_TOPIC].topic_id
        event = PartitionChanged(topic_id, partition, replicas=replicas)
        await decide(self.broker, lambda image: Decision([event]))

    async def configure(self, topic: str, key: str, value: str) -> None:
        """Set a key of a topic."""
        event = ConfigChanged(2, topic, key, value)
        await decide(self.broker, lambda image: Decision([event]))


class NoPeers:
    """There is no other broker."""

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> Channel:
        raise PeerLost("there is one broker", refused=True)


@asynccontextmanager
async def running(disk: MemoryDisk | None = None, /, **config: str) -> AsyncIterator[TestBroker]:
    """A broker on `disk`, which may hold what an earlier one left; keys of `config` with _ for the
    dots."""
    given = {**CONFIG, **{k.replace("_", "."): v for k, v in config.items()}}
    parsed = BrokerConfig.parse(given)
    clock, random = TrioClock(), Random(7)
    disk = disk if disk is not None else MemoryDisk()
    dirs = LogDirs.open(
        disk,
        ["/data"],
        cluster_id="test",
        node_id=1,
        holder="a test",
        new_id=lambda: random.randbytes(16),
    )
    async with trio.open_nursery() as nursery:
        store = EmbeddedStore(disk, dirs.usable[0].path, clock.now_ms)
        state = BrokerState(parsed, node_id=1, cluster_id="test")
        controller = Controller(store, state, NoPeers())
        await controller.open("test")

        async def answer_locally(client: Client | None, request: Any) -> Forwarded:
            api = MESSAGES[request.API_KEY]
            context = client or Context(broker, api.key, api.versions[1])
            assert isinstance(context, Context)
            return await dispatch(context, request)

        controller_client = ControllerClient(
            StaticLocator(parsed),
            NoPeers(),
            controller=controller,
            answer_locally=answer_locally,
            request_bytes_max=parsed.socket_request_max_bytes,
        )
        broker = assemble(
            Environment(
                state,
                Background(),
                dirs,
                clock,
                random,
                controller_client,
                NoPeers(),
                controller,
            )
        )
        broker.start(nursery)
        await nursery.start(controller.run, broker.publish)
        registration = BrokerRegistrationRequest(
            broker_id=1,
            cluster_id="test",
            incarnation_id=random.randbytes(16),
            listeners=[RegisteredListener(name="PLAINTEXT", host="here", port=9092)],
            features=supported_features(),
        )
        await decide(
            broker, lambda image: register_broker(image, registration, parsed, fenced=False)
        )
        test = TestBroker(broker)
        await test.loaded()
        yield test
        await broker.groups.stop()
        nursery.cancel_scope.cancel()
    dirs.release()


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a clock that jumps when nothing happens, with work off the loop done in
    place."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def main() -> None:
            with inline():
                await test(*args, **kwargs)

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

    return run
