"""A broker in a thread of this process, with its log in memory.

The broker starts in a few milliseconds, so each test can have its own. It listens on a port that
the system chooses, writes no files and starts no thread but its own: the work that a broker
otherwise does in threads runs on its loop, because memory needs no waiting. Python's settings
(garbage collection, signals, logging) remain those of the test's process.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from inspect import isawaitable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import trio
from msgspec import Struct

from pk.core.api.cluster import pk_faults
from pk.core.api.topics import create_topics
from pk.core.broker.faults import actions
from pk.core.broker.faults.faults import Faults as BrokerFaults
from pk.core.broker.faults.faults import SeenRequest
from pk.core.broker.offload import inline
from pk.core.broker.requests.context import Context
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.memory_disk import MemoryDisk
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pk.core.wire.messages.pk_faults import PkFaultsRequest, PkFaultsResponse
from pk.net.node import Node
from pk.testing.faults import AWAY_S, Faults, api_key, reason_of
from pk.testing.records import Records

T = TypeVar("T")

STOP_S: Final = 60.0
"""How long a broker on a busy machine may take to stop before that is an error."""
WAIT_S: Final = 60.0

DEFAULTS: Final[Mapping[str, str]] = {
    "node.id": "1",
    "log.dirs": "/memory",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "pk.faults.enable": "true",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""The config of a broker for tests: Kafka's defaults, except for these."""


FIRST_APIS: Final = frozenset({2, 8, 9, 10, 11, 12, 13, 14, 22})
"""The requests of producers and members of classic groups, except Produce, Fetch and Metadata:
ListOffsets, OffsetCommit to SyncGroup, InitProducerId."""


class Request(Struct, frozen=True):
    """A request that the broker received."""

    api: str
    """The name of the API, as in "OffsetCommit"."""
    version: int
    client_id: str | None
    connection: int
    """A number that distinguishes connections."""
    message: Any
    """The request's fields, by Kafka's names in snake_case."""


class Broker(Faults, Records):
    """A broker in this process; see the top of this file. Use it in `with Broker() as kafka:` or
    `async with`, or call `start` and `stop`."""

    def __init__(self, config: Mapping[str, str] | None = None) -> None:
        """Initialize the broker. `config` takes Kafka's broker keys. Raises ConfigError."""
        self._config = BrokerConfig.parse({**DEFAULTS, **(config or {})})
        self._thread: threading.Thread | None = None
        self._node: Node | None = None
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    # Life cycle

    def start(self) -> Self:
        """Start the broker. It serves when this returns. Raises StartError, and RuntimeError if the
        broker runs already."""
        if self._thread is not None:
            raise RuntimeError("the broker is already running")
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="pk.testing broker", daemon=True
        )
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._thread.join(STOP_S)
            self._thread = None
            raise
        return self

    def stop(self) -> None:
        """Stop the broker at once and drop its data. Does nothing if the broker does not run."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        assert self._token is not None and self._nursery is not None
        # Neither transfer leadership nor drain: nothing of the broker remains.
        self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
        thread.join(STOP_S)
        if thread.is_alive():
            raise RuntimeError(f"the broker did not stop within {STOP_S:g} s")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        """Start the broker, for `async with` in trio or asyncio. This takes a few milliseconds, and
        needs no other thread."""
        return self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self, started: Future[None]) -> None:
        async def serve() -> None:
            async with trio.open_nursery() as nursery:
                self._nursery, self._token = nursery, trio.lowlevel.current_trio_token()
                node = self._node = Node(self._config, disk=_memory(self._config))
                await node.run(lambda _: started.set_result(None))

        try:
            with inline():
                trio.run(serve)
        except BaseException as e:
            if started.done():
                raise
            started.set_exception(reason_of(e))

    # Addresses and topics

    @property
    def url(self) -> str:
        """The broker's host:port, for `bootstrap.servers`. Raises RuntimeError if the broker does
        not run."""
        if self._thread is None or self._node is None:
            raise RuntimeError("the broker is not running")
        return self._node.address

    @property
    def port(self) -> int:
        """The port of `url`."""
        return int(self.url.rpartition(":")[2])

    @property
    def metrics_url(self) -> str:
        """The URL of the broker's metrics. Raises RuntimeError if the broker does not run, or runs
        without `pk.metrics.listener`."""
        if self._thread is None or self._node is None or self._node.metrics_port is None:
            raise RuntimeError("the broker serves no metrics: set pk.metrics.listener=127.0.0.1:0")
        return f"http://127.0.0.1:{self._node.metrics_port}/metrics"

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic that clients can use at once, and return its name. `config` takes Kafka's
        topic keys. Raises KafkaError."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in (config or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)

        async def create(node: Node) -> Any:
            response: Any = await _answer(create_topics.handle(_context(node, 19, 7), request))
            controller = node.broker.cluster.controller
            assert controller is not None
            offset = controller.image.offset
            await node.broker.purgatory.until(
                lambda: node.broker.image.offset >= offset,
                (type(node.broker.image),),
                float("inf"),
            )
            return response

        result = self._call(create).topics[0]
        if result.error_code:
            raise KafkaError(result.error_code, result.error_message)
        return name

    # Faults; see `Faults` for the others

    def move_leader(self, topic: str, partition: int = 0, *, away_s: float = AWAY_S) -> None:
        """Make the broker resign as leader of a partition, and lead it again `away_s` seconds later
        in a new epoch. Until then, producers and consumers get NOT_LEADER_OR_FOLLOWER. Raises
        KafkaError."""
        away_ms = round(away_s * 1000)
        self._call(lambda node: actions.move_leader(node.broker, topic, partition, away_ms))

    def rebalance(self, group: str) -> None:
        """Make a consumer group assign its partitions again: its members join again, and members of
        the consumer protocol (KIP-848) lose their partitions first. Raises KafkaError
        GROUP_ID_NOT_FOUND."""
        self._call(lambda node: actions.rebalance(node.broker, group))

    # Requests

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[Request]:
        """Return the received requests, oldest first: all of them, those of one API
        ("OffsetCommit"), or those of one client. Raises ValueError."""
        key = None if api is None else api_key(api)

        async def look(node: Node) -> list[SeenRequest]:
            return _faults(node).requests(key, client_id)

        return [_request(seen) for seen in self._call(look)]

    def wait_for_requests(
        self,
        api: str,
        count: int = 1,
        *,
        client_id: str | None = None,
        timeout_s: float = WAIT_S,
    ) -> list[Request]:
        """Wait until the broker has received `count` such requests, and return all of them. Raises
        TimeoutError. In async code, call this in a thread (`asyncio.to_thread`)."""
        key = api_key(api)

        async def look(node: Node) -> list[SeenRequest]:
            faults = _faults(node)
            with trio.move_on_after(timeout_s):
                while len(faults.requests(key, client_id)) < count:
                    await faults.arrived.wait()
            return faults.requests(key, client_id)

        found = [_request(seen) for seen in self._call(look)]
        if len(found) < count:
            raise TimeoutError(
                f"{len(found)} of {count} {api} requests arrived within {timeout_s:g} s"
            )
        return found

    def forget_requests(self) -> None:
        """Forget the requests received so far."""

        async def forget(node: Node) -> None:
            _faults(node).forget_requests()

        self._call(forget)

    def _ask(self, request: PkFaultsRequest) -> Sequence[PkFaultsResponse]:
        async def ask(node: Node) -> PkFaultsResponse:
            return await _answer(pk_faults.handle(_context(node, request.API_KEY, 0), request))

        return [self._call(ask)]

    def _call(self, work: Callable[[Node], Awaitable[T]]) -> T:
        """Run `work` on the broker's loop, and return its result. Raises what `work` raises."""
        if self._thread is None or self._token is None or self._nursery is None:
            raise RuntimeError("the broker is not running")
        done: Future[T] = Future()
        nursery, node = self._nursery, self._node
        assert node is not None

        async def run() -> None:
            try:
                result = await work(node)
            except Exception as e:  # noqa: BLE001 (it is raised in the caller's thread)
                done.set_exception(e)
            except BaseException:
                done.set_exception(RuntimeError("the broker stopped"))
                raise
            else:
                done.set_result(result)

        self._token.run_sync_soon(nursery.start_soon, run)
        return done.result()


def broker(config: Mapping[str, str] | None = None) -> Broker:
    """Return a broker for a `with` or `async with` block. `config` takes Kafka's broker keys.
    Raises ConfigError."""
    return Broker(config)


def _memory(config: BrokerConfig) -> MemoryDisk:
    return MemoryDisk(config.pk_memory_bytes_max)


def _context(node: Node, api_key: int, version: int) -> Context:
    return Context(
        node.broker, api_key, version, client_id="pk.testing", own=True, connection_id=-1
    )


async def _answer(result: Any) -> Any:
    """Return the final answer of a handler, which may have returned awaitables."""
    while isawaitable(result):
        result = await result
    return result


def _faults(node: Node) -> BrokerFaults:
    found = node.broker.faults
    if found is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, pk_faults.OFF)
    return found


def _request(seen: SeenRequest) -> Request:
    name = MESSAGES[seen.api_key].name
    return Request(name, seen.version, seen.client_id, seen.connection_id, seen.message)
