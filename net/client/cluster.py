"""A client's view of a cluster: connections to its brokers, metadata, and the coordinators of
groups and transactional ids.

A connection is opened when it is first needed, kept while it works, and reopened with backoff after
it was lost. A broker serves one connection's requests in order, so requests that wait (Fetch,
JoinGroup) use connections of their own, named by `purpose`, as the Java consumer has one for its
coordinator.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import trio
from msgspec import Struct, field
from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import Uuid
from pk.net.client.answers import Answers
from pk.net.client.broker_store import BROKER_STORE, RememberedBrokers
from pk.net.client.config import ClientConfig
from pk.net.client.connection import Connection, OnRequest, connect
from pk.net.client.errors import (
    ClientError,
    Closed,
    ConfigError,
    ConnectFailed,
    Disconnected,
    NoBrokers,
    RequestTimedOut,
    Unanswered,
    is_retriable,
)
from pk.net.client.metadata import Metadata, TopicInfo
from pk.net.client.results import CoordinatorType, Node

METADATA: Final = 3
_JITTER: Final = 0.2
R = TypeVar("R")
CONTROLLERS: Final = "controller"
"""The purpose of connections for reads that a broker may forward to its controller. If the
controller hangs, later requests on such a connection get no answer, but other connections still
work."""

_SLOW_S: Final = 1.0
"""How long to wait for a broker, if any broker will do, before asking another one as well."""


def parse_bootstrap(bootstrap: str | Sequence[str]) -> tuple[Node, ...]:
    """Parse addresses, "host:port,[::1]:port" or a list of such. Raises ConfigError."""
    parts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    nodes: list[Node] = []
    for part in (part.strip() for part in parts):
        if not part:
            continue
        host, colon, port = part.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            hint = f"; did you mean {part}:9092?" if part and ":" not in part else ""
            raise ConfigError(
                f"bootstrap.servers: not an address such as host:9092: {part!r}{hint}"
            )
        nodes.append(Node(-1 - len(nodes), host, int(port)))
    if not nodes:
        raise ConfigError("bootstrap.servers: no address is given")
    return tuple(nodes)


class Backoff:
    """Exponential backoff: waits double from `first_ms` to `max_ms`, with 20 % jitter (KIP-580)."""

    __slots__ = ("failures", "first_ms", "max_ms")

    def __init__(self, first_ms: float, max_ms: float) -> None:
        self.first_ms = first_ms
        self.max_ms = max(first_ms, max_ms)
        self.failures = 0

    def next_ms(self) -> float:
        """Return how long to wait after one more failure."""
        grown = min(self.first_ms * 2.0 ** min(self.failures, 30), self.max_ms)
        self.failures += 1
        return grown * random.uniform(1 - _JITTER, 1 + _JITTER)

    def reset(self) -> None:
        self.failures = 0


class _NodeConnection(Struct):
    """The connection to one address for one purpose, and the time at which to retry."""

    node: Node
    backoff: Backoff
    lock: trio.Lock = field(default_factory=trio.Lock)
    connection: Connection | None = None
    failure: ConnectFailed | None = None
    not_before: float = 0.0
    connecting_since: float | None = None
    """When the pending attempt to connect began; None if no attempt is pending. The attempt may
    continue although no task waits for it anymore."""

    @property
    def silent_since(self) -> float | None:
        """Since when the broker has owed an answer or a connection; None if it owes neither."""
        if self.connecting_since is not None:
            return self.connecting_since
        return self.connection.waiting_since if self.connection is not None else None


class Cluster:
    """Connections and metadata shared by one client's tasks. Created by `open_cluster`."""

    def __init__(
        self,
        bootstrap: tuple[Node, ...],
        config: ClientConfig,
        nursery: trio.Nursery,
        on_request: OnRequest | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.config = config
        self.metadata = Metadata()
        self.coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self.on_metadata: list[Callable[[], None]] = []
        """Called after each change of the metadata."""

        self._nursery = nursery
        self._on_request = on_request
        self._links: dict[tuple[str, str], _NodeConnection] = {}
        self._closed = False
        self.reached_once = False
        """Whether a broker has ever answered."""

        self.remembered_node: Node | None = None
        """The broker known from an earlier run that answered when no bootstrap address did; None if
        there was none."""

        self._broker_store = BROKER_STORE.get()

        self._refresh_lock = trio.Lock()
        self._all_failed_since: float | None = None

    # connections

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """Return a usable connection to a broker; open one if necessary.

        Raises ConnectFailed, or KafkaError BROKER_NOT_AVAILABLE for a broker that the metadata does
        not name.
        """
        node = self.node(node_id)
        if node is None:
            await self.refresh(())
            node = self.node(node_id)
        if node is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not among the live brokers"
            )
        return await self._connect(node, purpose)

    async def connection_to(self, node: Node, purpose: str = "") -> Connection:
        """Return a usable connection to a node that is not a broker in the metadata, such as a
        controller. Raises ConnectFailed."""
        return await self._connect(node, purpose)

    def node(self, node_id: int) -> Node | None:
        """Return a broker by id. Negative ids are the bootstrap addresses."""
        if node_id < 0:
            index = -1 - node_id
            return self.bootstrap[index] if index < len(self.bootstrap) else None
        return self.metadata.brokers.get(node_id)

    def ready_connection(self, node_id: int, purpose: str = "") -> Connection | None:
        """Return the connection to a broker if it is usable now; else None."""
        node = self.node(node_id)
        link = self._links.get((node.address, purpose)) if node else None
        usable = link is not None and link.connection is not None and link.connection.usable
        return link.connection if link is not None and usable else None

    async def _connect(self, node: Node, purpose: str) -> Connection:
        if self._closed:
            raise Closed("this client is closed")
        link = self._links.get((node.address, purpose))
        if link is None:
            backoff = Backoff(
                self.config.reconnect_backoff_ms, self.config.reconnect_backoff_max_ms
            )
            link = self._links[node.address, purpose] = _NodeConnection(node, backoff)
        elif link.node.node_id < 0:
            link.node = node
        # A request that waits (Fetch, JoinGroup) uses a connection with a purpose of its own. That
        # connection may look clogged if a caller abandons such a request, so it is not closed here.
        waits = purpose not in ("", CONTROLLERS)
        if not waits and link.connection is not None and link.connection.is_clogged(_SLOW_S):
            link.connection.close()
        if link.connection is not None and link.connection.usable:
            if link.connection.node.node_id < 0 <= node.node_id:
                link.connection.node = node  # connected by a bootstrap address
            return link.connection
        async with link.lock:
            if link.connection is not None and link.connection.usable:
                return link.connection
            await trio.sleep_until(link.not_before)
            setup_ms = min(
                self.config.socket_connection_setup_timeout_ms * 2.0**link.backoff.failures,
                self.config.socket_connection_setup_timeout_max_ms,
            )
            link.connecting_since = trio.current_time()
            try:
                link.connection = await connect(
                    node,
                    self.config,
                    self._nursery,
                    on_request=self._on_request,
                    setup_timeout_ms=setup_ms,
                )
            except KafkaError:
                # The login failed: no other broker would accept it.
                link.connecting_since = None
                link.not_before = trio.current_time() + link.backoff.next_ms() / 1000
                raise
            except ConnectFailed as e:
                if any(node.address == given.address for given in self.bootstrap):
                    e.node_id = -1  # a bootstrap address: do not blame the advertised listener
                link.connecting_since = None
                link.failure = e
                link.not_before = trio.current_time() + link.backoff.next_ms() / 1000
                raise
            link.connecting_since = None
            link.backoff.reset()
            link.not_before = trio.current_time() + link.backoff.first_ms / 1000
            return link.connection

    def silent(self, for_s: float = 0.0) -> list[Node]:
        """Return the nodes that have owed an answer, or a connection, for at least `for_s` seconds,
        longest first.

        Connections for requests that are meant to wait (Fetch, JoinGroup) do not count.
        """
        latest = trio.current_time() - for_s
        found = [
            (link.silent_since, link.node)
            for (_, purpose), link in self._links.items()
            if purpose in ("", CONTROLLERS)
            and link.silent_since is not None
            and link.silent_since <= latest
        ]
        silent = {node.address: node for _, node in sorted(found, key=lambda one: one[0])}
        return list(silent.values())

    async def any_connection(self, exclude: Connection | None = None) -> Connection:
        """Return a connection to any broker that answers: first one in use, then the known brokers,
        then the bootstrap addresses.

        `exclude` is a connection to avoid. Raises NoBrokers if none can be reached after one
        attempt each.
        """
        if self._closed:
            raise Closed("this client is closed")
        known = list(self.metadata.brokers.values())
        ready = [c for node in known if (c := self.ready_connection(node.node_id)) is not None]
        responsive = [c for c in ready if c is not exclude and c.waited_s < _SLOW_S]
        if responsive:
            return min(responsive, key=lambda c: c.in_flight)
        random.shuffle(known)
        silent = {c.node.address for c in ready}
        known.sort(key=lambda node: node.address in silent)
        candidates = known + [n for n in self.bootstrap if not self._is_known(n)]
        if known and not self._may_rebootstrap():
            candidates = known
        if exclude is not None:
            candidates = [n for n in candidates if n.address not in silent | {exclude.node.address}]
        try:
            connection = await self._connect_to_first(candidates)
        except NoBrokers as e:
            remembered = (
                await self._connect_to_remembered(e) if exclude is None and not known else None
            )
            if remembered is None:
                if exclude is None and self._all_failed_since is None:
                    self._all_failed_since = trio.current_time()
                raise
            connection = remembered
        self._all_failed_since = None
        self.reached_once = True
        return connection

    async def _connect_to_remembered(self, error: NoBrokers) -> Connection | None:
        """Return a connection to a broker known from an earlier run. Adds the failures of those
        that do not answer to `error`."""
        if self._broker_store is None:
            return None
        found = self._broker_store.brokers(self.bootstrap)
        given = {node.address for node in self.bootstrap}
        for node in found.nodes:
            if node.address in given:
                continue
            try:
                connection = await self._connect_to_first([node])
            except NoBrokers as e:
                error.failures.extend(e.failures)
                continue
            if found.cluster_id is None or await _cluster_id(connection) == found.cluster_id:
                self.remembered_node = node
                return connection
            connection.close()
        return None

    async def _connect_to_first(self, candidates: Sequence[Node]) -> Connection:
        """Return a connection to the first node that answers. Nodes are tried one after another,
        without a long wait for any of them."""
        failures: list[ConnectFailed] = []
        raised: list[Exception] = []
        found: list[Connection] = []

        async def attempt(node: Node, done: trio.Event) -> None:
            try:
                connection = await self._connect(node, "")
                if METADATA not in connection.api_versions:
                    connection.close()
                    reason = "a controller listens there, not a broker"
                    raise ConnectFailed(node.address, reason, node_id=node.node_id)
                found.append(connection)
                nursery.cancel_scope.cancel()
            except ConnectFailed as e:
                failures.append(e)
            except Exception as e:  # noqa: BLE001 - raised again below, ungrouped
                raised.append(e)
                nursery.cancel_scope.cancel()
            finally:
                done.set()

        async with trio.open_nursery() as nursery:
            for node in candidates:
                done = trio.Event()
                nursery.start_soon(attempt, node, done)
                with trio.move_on_after(_SLOW_S):
                    await done.wait()
        if found:
            return found[0]
        if raised:
            raise raised[0]
        raise NoBrokers(failures)

    async def ask_any(self, ask: Callable[[Connection], Awaitable[R]]) -> R:
        """Return the result of `ask` from any broker that answers. Only for requests that change
        nothing, since two brokers may be asked.

        If the first is slow, another one gets the request as well: the first may hang with its
        connections open. Raises what `ask` raises, and NoBrokers.
        """
        answers: list[R] = []
        errors: list[Exception] = []

        async def attempt(connection: Connection, done: trio.Event) -> None:
            try:
                answers.append(await ask(connection))
                nursery.cancel_scope.cancel()
            except Exception as e:  # noqa: BLE001 - raised again below, ungrouped
                errors.append(e)
            finally:
                done.set()

        first = await self.any_connection()
        async with trio.open_nursery() as nursery:
            done = trio.Event()
            nursery.start_soon(attempt, first, done)
            with trio.move_on_after(_SLOW_S):
                await done.wait()
            if not done.is_set():
                with suppress(NoBrokers):
                    second = await self.any_connection(exclude=first)
                    nursery.start_soon(attempt, second, trio.Event())
        if answers:
            return answers[0]
        raise errors[0]

    def _is_known(self, node: Node) -> bool:
        return any(
            n.host == node.host and n.port == node.port for n in self.metadata.brokers.values()
        )

    def _may_rebootstrap(self) -> bool:
        """Return to the bootstrap addresses if all known brokers have failed for a while (KIP-899,
        KIP-1102)."""
        if self.config.metadata_recovery_strategy == "none":
            return False
        failed_since = self._all_failed_since
        trigger_ms = self.config.metadata_recovery_rebootstrap_trigger_ms
        return failed_since is not None and (
            all(self._failing(node) for node in self.metadata.brokers.values())
            or trio.current_time() - failed_since >= trigger_ms / 1000
        )

    def _failing(self, node: Node) -> bool:
        link = self._links.get((node.address, ""))
        return link is not None and link.failure is not None

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self._closed = True
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()

    # requests

    # The keywords are those of `connection` and of `Connection.request`, for programs that send any
    # message.
    async def request(
        self,
        request: Any,
        *,
        node_id: int | None = None,
        purpose: str = "",
        version: int | None = None,
        low: int = 0,
        high: int = 32767,
        timeout_ms: float | None = None,
    ) -> Any:
        """Send one request to a broker (None: any) and wait for the answer. No retries.

        Raises ConnectFailed, NoBrokers, Disconnected, RequestTimedOut, KafkaError
        UNSUPPORTED_VERSION.
        """
        if node_id is None:
            connection = await self.any_connection()
        else:
            connection = await self.connection(node_id, purpose)
        return await connection.request(
            request, version=version, low=low, high=high, timeout_ms=timeout_ms
        )

    async def retry(
        self,
        attempt: Callable[[], Any],
        *,
        timeout_ms: float,
        what: str,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> Any:
        """Call `attempt` (async) until it succeeds, fails for good, or `timeout_ms` has passed.

        Retries a retriable KafkaError, Disconnected, RequestTimedOut, and connection failures once
        the cluster has been reached. Before that, an unreachable cluster fails at once, so that a
        wrong address does not take a minute.
        """
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        last: Exception | None = None
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                try:
                    return await attempt()
                except (KafkaError, ClientError) as e:
                    if not self._is_retriable(e):
                        raise
                    last = e
                    if on_failure is not None:
                        on_failure(e)
                await trio.sleep(backoff.next_ms() / 1000)
        if last is not None:
            raise last
        if silent := self.silent(min(timeout_ms / 2000, _SLOW_S)):
            raise Unanswered(silent, timeout_ms)
        raise RequestTimedOut(f"{what}: no answer within {timeout_ms:.0f} ms")

    def _is_retriable(self, error: Exception) -> bool:
        if isinstance(error, KafkaError):
            return is_retriable(error)
        if isinstance(error, ConnectFailed | NoBrokers):
            return self.reached_once
        return isinstance(error, Disconnected | RequestTimedOut)

    # metadata

    async def refresh(
        self,
        topics: Iterable[str] | None,
        *,
        allow_auto_topic_creation: bool = False,
        topic_ids: Iterable[Uuid] = (),
    ) -> Any:
        """Ask any broker for metadata of `topics` (None: all; empty: only the brokers) and store
        it.

        Returns the response. Raises what `request` raises.
        """
        from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

        async with self._refresh_lock:
            ids = list(topic_ids)
            asked: list[MetadataRequestTopic] | None = None
            if topics is not None or ids:
                asked = [MetadataRequestTopic(name=name) for name in topics or ()]
                asked += [MetadataRequestTopic(topic_id=topic_id) for topic_id in ids]

            async def ask(connection: Connection) -> Any:
                version = connection.version_of(METADATA, low=12 if ids else 1)
                request = MetadataRequest(topics=asked)
                if version >= 4:
                    request.allow_auto_topic_creation = allow_auto_topic_creation
                return await connection.request(request, version=version)

            response = await self.ask_any(ask)
            error_code = getattr(response, "error_code", 0)
            if error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self._rebootstrap()
            if error_code:
                raise KafkaError(error_code, "the broker refused Metadata")
            self.metadata.apply(response, trio.current_time(), all_topics=asked is None)
            if self._broker_store is not None and response.brokers:
                brokers = tuple(self.metadata.brokers.values())
                found = RememberedBrokers(brokers, self.metadata.cluster_id)
                self._broker_store.store(self.bootstrap, found)
            self.metadata_changed()
            return response

    def _rebootstrap(self) -> None:
        self.metadata.brokers = {}
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()

    def metadata_changed(self) -> None:
        """Notify the listeners that the metadata has changed."""
        for callback in self.on_metadata:
            callback()

    async def topic(
        self, name: str, *, timeout_ms: float, allow_auto_topic_creation: bool = False
    ) -> TopicInfo:
        """Return the metadata of a topic. Requests it if it is unknown or older than
        `metadata.max.age.ms`.

        Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION, …) if it stays unknown for `timeout_ms`.
        """
        known = self.metadata.topics.get(name)
        fresh_since = trio.current_time() - self.config.metadata_max_age_ms / 1000
        if known is not None and not known.error_code and known.fetched_at >= fresh_since:
            return known

        async def attempt() -> TopicInfo:
            await self.refresh([name], allow_auto_topic_creation=allow_auto_topic_creation)
            info = self.metadata.topics[name]
            if info.error_code:
                raise KafkaError(info.error_code, f"topic {name!r}")
            return info

        return await self.retry(attempt, timeout_ms=timeout_ms, what=f"metadata of {name}")

    # roles

    async def controller(self) -> int:
        """Return the id of the broker for requests to the controller (under KRaft, any broker
        forwards them)."""
        if self.metadata.controller_id not in self.metadata.brokers:
            await self.refresh(())
        if self.metadata.controller_id not in self.metadata.brokers:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment"
            )
        return self.metadata.controller_id

    async def coordinator(self, key: str, type: CoordinatorType = CoordinatorType.GROUP) -> int:
        """Return the id of the broker that coordinates a group or transactional id. It is cached
        until `forget_coordinator`.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE, GROUP_AUTHORIZATION_FAILED, …
        """
        known = self.coordinators.get((type, key))
        if known is not None:
            return known
        return (await self.find_coordinators([key], type)).value(key).node_id

    async def find_coordinators(
        self, keys: Sequence[str], type: CoordinatorType
    ) -> Answers[str, Node]:
        """Find the coordinators of several keys: with one request from version 4 on, else with one
        per key."""
        from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest

        async def ask(connection: Connection) -> dict[str, Any]:
            version = connection.version_of(FindCoordinatorRequest.API_KEY, low=1 if type else 0)
            if version >= 4:
                request = FindCoordinatorRequest(key_type=int(type), coordinator_keys=list(keys))
                response = await connection.request(request, version=version)
                return {a.key: a for a in response.coordinators}
            answers: dict[str, Any] = {}
            for key in keys:
                request = FindCoordinatorRequest(key=key, key_type=int(type))
                answers[key] = await connection.request(request, version=version)
            return answers

        answers = await self.ask_any(ask)
        return Answers((key, self._coordinator_answer(a, key, type)) for key, a in answers.items())

    def _coordinator_answer(
        self, answer: Any, key: str, type: CoordinatorType
    ) -> Node | KafkaError:
        if answer.error_code:
            kind = type.name.lower()
            message = answer.error_message or f"the coordinator of {kind} {key!r}"
            return KafkaError(answer.error_code, message)
        node = Node(answer.node_id, answer.host, answer.port)
        known = self.metadata.brokers.get(node.node_id)
        if known is None or known.address != node.address:
            rack = known.rack if known is not None else None
            self.metadata.brokers[node.node_id] = replace(node, rack=rack)
        self.coordinators[type, key] = node.node_id
        return node

    def forget_coordinator(self, key: str, type: CoordinatorType = CoordinatorType.GROUP) -> None:
        """Forget the coordinator of a group or transactional id, so that it is looked up again."""
        self.coordinators.pop((type, key), None)


async def _cluster_id(connection: Connection) -> str | None:
    """Return the id of the cluster that a broker belongs to; None if the broker does not return
    it."""
    from pk.core.wire.messages.metadata import MetadataRequest

    with suppress(KafkaError, ClientError):
        response = await connection.request(MetadataRequest(topics=[]), low=2)
        return response.cluster_id
    return None


@asynccontextmanager
async def open_cluster(
    bootstrap: str | Sequence[str], config: ClientConfig, on_request: OnRequest | None = None
) -> AsyncGenerator[Cluster]:
    """Open a `Cluster`, whose connections are closed when the block ends. Exceptions of the block
    are raised as they are, not in an exception group."""
    nodes = parse_bootstrap(bootstrap)
    async with in_nursery() as nursery:
        cluster = Cluster(nodes, config, nursery, on_request)
        try:
            yield cluster
        finally:
            cluster.close()


@asynccontextmanager
async def in_nursery() -> AsyncGenerator[trio.Nursery]:
    """Open a nursery whose tasks are cancelled when the block ends. Exceptions of the block are
    raised as they are, not in an exception group. Cancelling the block from outside does not cancel
    the tasks before the block ends: its cleanup (a commit, leaving a group) needs them.
    """
    raised: BaseException | None = None
    started, finished = trio.Event(), trio.Event()
    inner: list[trio.Nursery] = []

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.shield = True
            inner.append(nursery)
            started.set()
            await finished.wait()

    async with trio.open_nursery() as outer:
        outer.start_soon(serve)
        try:
            await started.wait()
            yield inner[0]
        except trio.Cancelled:
            raise
        except BaseException as e:  # noqa: BLE001 - raised again below, ungrouped
            raised = e
        finally:
            finished.set()
            for nursery in inner:
                nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised
