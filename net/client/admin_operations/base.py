"""The common parts of the admin operations: routing, retries, and one answer per item.

An operation on many items first finds the broker responsible for each item (*routing*), and then
sends the request to all those brokers at the same time. Items that failed with a transient error
are routed again, until all are settled or `default.api.timeout.ms` has passed. Each item has its
own result or error; a failed item does not affect the others.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import TopicPartition
from pk.net.client.answers import Answers
from pk.net.client.cluster import CONTROLLERS, Backoff, Cluster
from pk.net.client.config import AdminConfig
from pk.net.client.connection import Connection
from pk.net.client.errors import (
    BrokerDown,
    ClientError,
    ConnectFailed,
    ControllerDown,
    ControllerSilent,
    Disconnected,
    NoBrokers,
    RequestTimedOut,
    Straggler,
    Unanswered,
    UnknownPartition,
    is_retriable,
)
from pk.net.client.fan_out import FanOut
from pk.net.client.results import CoordinatorType, Node

Failure = Exception
"""The error that an item may have instead of a result: `KafkaError`, `ClientError` or
`ProtocolError`."""

FAILURES: Final = (KafkaError, ClientError, ProtocolError)
_LISTED_CHECK_S: Final = 2.0
"""How often to ask other brokers whether a broker that does not answer has left the cluster."""

_DOWN_CHECK_S: Final = 0.5
"""How often, while waiting for the controller, to check whether it is known to be down."""

_RESPONSE_S: Final = 1.0
"""How long a broker may take to answer a request that needs no other node. A slower broker is
assumed to hang."""

_LEADERLESS_S: Final = 1.0
"""How long to retry for a partition without a leader if `pk.straggler.timeout.ms` is set. This
limit applies even to changes, which do wait for stragglers."""

_UNKNOWN_ATTEMPTS: Final = 3
"""How many attempts a topic that is unknown gets: a broker may not know a new topic yet."""

_COORDINATOR_MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_UNKNOWN_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

# Transient errors that are returned at once.
_FINAL: Final = (
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)

K = TypeVar("K")
R = TypeVar("R")
Routed = tuple[dict[int, list[K]], dict[K, Failure]]
"""(broker id → the items that the broker is responsible for, item → its failure if no broker is
responsible)."""


def failure(code: int, message: str | None = None) -> KafkaError | None:
    """Return the error for `code`, or None for NONE."""
    return KafkaError(code, message) if code else None


def check(response: Any, what: str) -> None:
    """Raise the error of a whole response. `what` describes the request, in case the response has
    no message."""
    if response.error_code:
        raise KafkaError(response.error_code, getattr(response, "error_message", None) or what)


def _lacks_leader(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.LEADER_NOT_AVAILABLE


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions by topic, in the order given."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


async def _race(
    ask: Callable[[], Awaitable[R]], interrupt: Callable[[], Awaitable[None]]
) -> tuple[R, ...]:
    """Return a tuple with the result of `ask`, empty if `interrupt` returns first. Raises what
    `ask` raises."""
    answers: list[R] = []
    errors: list[Exception] = []

    async def run() -> None:
        try:
            answers.append(await ask())
        except Exception as e:  # noqa: BLE001 - raised again below, ungrouped
            errors.append(e)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await interrupt()
        nursery.cancel_scope.cancel()
    if errors:
        raise errors[0]
    return tuple(answers)


class AdminBase:
    """The request methods of an admin client; the operations are in the derived classes."""

    def __init__(self, cluster: Cluster, config: AdminConfig) -> None:
        self.cluster = cluster
        """Connections, metadata, and `request()` for APIs that no operation covers."""

        self.config = config
        self.fan_out = FanOut(cluster)
        self.controller_down: Callable[[], ControllerDown | None] | None = None
        """A function that returns why the controller cannot answer, or None if this machine does
        not know. It is called while waiting for the controller."""

        self.awaiting_controller = 0
        """The number of tasks that wait for an answer that only the controller can give."""

        self.thorough = False
        """Whether to retry stragglers until `default.api.timeout.ms`, also at brokers that have
        taken over from them."""

    async def _any(self, request: Any, *, low: int = 0, high: int = 32767) -> Any:
        """Ask any broker. Only for requests that change nothing."""

        async def ask(connection: Connection) -> Any:
            return await connection.request(request, low=low, high=high)

        return await self._retry(lambda: self.cluster.ask_any(ask), type(request).__name__)

    async def _controller(self, ask: Callable[[Connection], Awaitable[R]], purpose: str = "") -> R:
        """Ask the controller, and the new one if the controller has moved."""

        async def attempt() -> R:
            return await self._ask_while_listed(await self.cluster.controller(), ask, purpose)

        def moved(error: Exception) -> None:
            self.cluster.metadata.controller_id = -1

        try:
            return await self._unless_controller_down(
                lambda: self._retry(attempt, "the controller", moved)
            )
        except Unanswered as e:
            raise await self._attribute_timeout(e) from None

    async def _unless_controller_down(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Return the result of `ask`, which needs the controller. Raises what `ask` raises, and
        ControllerDown as soon as the controller is known to be down."""
        self.awaiting_controller += 1
        try:
            return await self._until_controller_down(ask)
        finally:
            self.awaiting_controller -= 1

    async def _until_controller_down(self, ask: Callable[[], Awaitable[R]]) -> R:
        down = self.controller_down
        if down is None:
            return await ask()
        if (found := down()) is not None:
            raise found

        async def until_down() -> None:
            nonlocal found
            while found is None:
                await trio.sleep(_DOWN_CHECK_S)
                found = down()

        for answer in await _race(ask, until_down):
            return answer
        assert found is not None
        raise ControllerDown(found.why, found.step, asked=True)

    async def _attribute_timeout(self, error: Unanswered) -> RequestTimedOut:
        """Return the error to raise for an unanswered change that the controller makes. The
        controller is to blame if the brokers that forward requests to it answer other requests."""
        for node in error.nodes:
            if node.node_id < 0 or not await self._responds(node.node_id):
                return error
        return ControllerSilent(error.nodes, error.waited_ms, changes=True)

    async def _responds(self, node_id: int) -> bool:
        """Return whether a broker answers a request that needs no other node."""
        from pk.core.wire.messages.metadata import MetadataRequest

        with trio.move_on_after(_RESPONSE_S), suppress(*FAILURES):
            request = MetadataRequest(topics=[])
            await self.cluster.request(request, node_id=node_id, purpose=CONTROLLERS)
            return True
        return False

    async def _within_straggler_timeout(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Return the result of `ask`, which only the controller can answer and which changes
        nothing.

        Raises what `ask` raises, and ControllerSilent if `ask` takes longer than
        `pk.straggler.timeout.ms` although brokers answer other requests.
        """
        limit_ms = self.config.pk_straggler_timeout_ms
        if limit_ms < 0 or self.thorough:
            return await self._unless_controller_down(ask)
        silent: list[Node] = []

        async def until_late() -> None:
            nonlocal silent
            await trio.sleep(limit_ms / 1000)
            silent = self.cluster.silent(limit_ms / 2000)
            try:
                await self.cluster.refresh(())
            except FAILURES:
                await trio.sleep_forever()

        for answer in await _race(lambda: self._unless_controller_down(ask), until_late):
            return answer
        raise ControllerSilent(silent, limit_ms)

    async def _ask_while_listed(
        self, node_id: int, ask: Callable[[Connection], Awaitable[R]], purpose: str
    ) -> R:
        """Ask a broker, and give up when the cluster no longer lists it: a broker that hangs with
        its connections open is eventually fenced, and other brokers take over its partitions.

        Raises what `ask` raises, and Disconnected if the broker is no longer listed.
        """

        async def until_unlisted() -> None:
            while True:
                await trio.sleep(_LISTED_CHECK_S)
                with suppress(*FAILURES):
                    await self.cluster.refresh(())
                    if node_id not in self.cluster.metadata.brokers:
                        return

        async def ask_broker() -> R:
            return await ask(await self.cluster.connection(node_id, purpose))

        for answer in await _race(ask_broker, until_unlisted):
            return answer
        raise Disconnected(f"broker {node_id} did not answer, and is no longer in the cluster")

    async def _retry(
        self,
        attempt: Callable[[], Awaitable[R]],
        what: str,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> R:
        timeout_ms = self.config.default_api_timeout_ms
        return await self.cluster.retry(
            attempt, timeout_ms=timeout_ms, what=what, on_failure=on_failure
        )

    async def _batches(
        self,
        items: Iterable[K],
        route: Callable[[list[K]], Awaitable["Routed[K]"]],
        ask: Callable[[Connection, list[K]], Awaitable[Answers[K, Any]]],
        on_failure: Callable[[K, Exception], None] | None = None,
        *,
        changes: bool = False,
    ) -> Answers[K, Any]:
        """Route the items and ask the brokers; repeat for the items that failed with a transient
        error. Raises if no broker is reachable.

        With `changes`, wait for slow brokers even if all others have answered.
        """
        remaining = list(dict.fromkeys(items))
        answers: Answers[K, Any] = Answers()
        order = remaining
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        attempts = 0
        asked: dict[K, int] = {}
        started = trio.current_time()
        waits = self.config.pk_straggler_timeout_ms < 0
        with trio.move_on_after(self.config.default_api_timeout_ms / 1000):
            while remaining and attempts <= self.config.retries:
                if attempts:
                    await trio.sleep(backoff.next_ms() / 1000)
                attempts += 1
                routed = await self._retry(lambda todo=remaining: route(todo), "routing")
                asked = {item: node_id for node_id, items in routed[0].items() for item in items}
                await self._ask_all(routed, ask, answers, patient=changes)
                errors = {i: answers.errors[i] for i in remaining if i in answers.errors}
                remaining = [i for i, e in errors.items() if self._is_retriable(e, attempts)]
                if not waits and trio.current_time() - started >= _LEADERLESS_S:
                    remaining = [i for i in remaining if not _lacks_leader(errors[i])]
                if on_failure is not None:
                    for item, error in errors.items():
                        if isinstance(error, Straggler) or self._is_retriable(error, attempts):
                            on_failure(item, error)
        return answers.of(order, lambda item: self._unanswered(asked.get(item)))

    def _unanswered(self, node_id: int | None) -> RequestTimedOut:
        """Return the error for an item that timed out. It names `node_id`, or for None (the item
        was not routed) the nodes that have not answered."""
        limit_ms = self.config.default_api_timeout_ms
        node = None if node_id is None else self.cluster.node(node_id)
        silent = [node] if node is not None else self.cluster.silent()
        if silent:
            return Unanswered(silent, limit_ms)
        return RequestTimedOut(f"not settled within default.api.timeout.ms ({limit_ms} ms)")

    async def _ask_all(
        self,
        routed: "Routed[K]",
        ask: Callable[[Connection, list[K]], Awaitable[Answers[K, Any]]],
        answers: Answers[K, Any],
        *,
        patient: bool = False,
    ) -> None:
        """Ask all nodes at once. Answers are added to `answers` as they arrive, so that a timeout
        loses none. Unless `patient`, the items of a node that is much slower than another fail with
        `Straggler`."""
        answers.update(Answers(routed[1].items()))

        async def ask_one(node_id: int) -> bool:
            items = routed[0][node_id]
            try:
                connection = await self.cluster.connection(node_id)
                answers.update(await ask(connection, items))
            except FAILURES as e:
                answers.update(Answers((item, e) for item in items))
                return False
            return True

        limit_ms = self.config.pk_straggler_timeout_ms
        others_s = float("inf") if patient or limit_ms < 0 else limit_ms / 1000
        for node_id in await self.fan_out.ask(routed[0], ask_one, others_s=others_s):
            node = self.cluster.node(node_id)
            late = Straggler(node_id, node.address if node else "?", limit_ms)
            answers.update(Answers((item, late) for item in routed[0][node_id]))

    def _is_retriable(self, error: Exception, attempts: int) -> bool:
        if isinstance(error, KafkaError):
            if error.code in _FINAL or isinstance(error, BrokerDown):
                return False
            if error.code in _UNKNOWN_TOPIC:
                return attempts < _UNKNOWN_ATTEMPTS
            return is_retriable(error)
        if isinstance(error, Straggler):
            return self.thorough
        return isinstance(error, ClientError) and not isinstance(error, NoBrokers)

    def _route_leaders(self, partitions: list[TopicPartition]) -> Routed[TopicPartition]:
        """Route each partition to its leader by the cached metadata."""
        by_node: dict[int, list[TopicPartition]] = {}
        failed: dict[TopicPartition, Failure] = {}
        for partition in partitions:
            error = self._leader_error(partition)
            if error is not None:
                failed[partition] = error
            else:
                leader_id, _ = self.cluster.metadata.leader(partition)
                by_node.setdefault(leader_id, []).append(partition)
        return by_node, failed

    def _leader_error(self, partition: TopicPartition) -> KafkaError | None:
        info = self.cluster.metadata.topics.get(partition.topic)
        if info is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return KafkaError(code, f"topic {partition.topic!r} does not exist")
        if info.error_code:
            what = f"topic {partition.topic!r}"
            if info.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                what += " does not exist"
            return KafkaError(info.error_code, what)
        count = len(info.partitions)
        if not 0 <= partition.partition < count:
            return UnknownPartition(partition.topic, partition.partition, count)
        if info.partitions[partition.partition].leader_id < 0:
            return KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{partition.shown} has no leader now"
            )
        return None

    async def _by_leader(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Connection, list[TopicPartition]], Awaitable[Answers[TopicPartition, Any]]],
        *,
        changes: bool = False,
    ) -> Answers[TopicPartition, Any]:
        """Ask the leader of each partition. Refreshes the metadata at the start and after
        failures."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        stale = {partition.topic for partition in wanted}

        async def route(todo: list[TopicPartition]) -> Routed[TopicPartition]:
            if asked := sorted(stale & {partition.topic for partition in todo}):
                await self.cluster.refresh(asked)
                stale.difference_update(asked)
            return self._route_leaders(todo)

        def failed(partition: TopicPartition, error: Exception) -> None:
            stale.add(partition.topic)

        return await self._batches(wanted, route, ask, failed, changes=changes)

    async def _by_coordinator(
        self,
        keys: Iterable[str],
        ask: Callable[[Connection, list[str]], Awaitable[Answers[str, Any]]],
        type: CoordinatorType = CoordinatorType.GROUP,
        *,
        changes: bool = False,
    ) -> Answers[str, Any]:
        """Ask the coordinator of each group or transactional id."""

        async def route(todo: list[str]) -> "Routed[str]":
            unknown = [k for k in todo if (type, k) not in self.cluster.coordinators]
            failed: dict[str, Failure] = {}
            if unknown:
                failed = (await self.cluster.find_coordinators(unknown, type)).errors
            by_node: dict[int, list[str]] = {}
            for key in todo:
                if key not in failed:
                    by_node.setdefault(self.cluster.coordinators[type, key], []).append(key)
            return by_node, failed

        def moved(key: str, error: Exception) -> None:
            lost = isinstance(error, ConnectFailed | ClientError)
            if lost or (isinstance(error, KafkaError) and error.code in _COORDINATOR_MOVED):
                self.cluster.forget_coordinator(key, type)

        return await self._batches(keys, route, ask, moved, changes=changes)

    async def _one_group(
        self, group_id: str, ask: Callable[[Connection], Awaitable[R]], *, changes: bool = True
    ) -> R:
        """Ask the coordinator of one group; raises on failure."""

        async def ask_group(connection: Connection, _: list[str]) -> Answers[str, R]:
            return Answers([(group_id, await ask(connection))])

        answers = await self._by_coordinator([group_id], ask_group, changes=changes)
        return answers.value(group_id)

    async def _live_brokers(self) -> list[int]:
        await self._retry(lambda: self.cluster.refresh(()), "metadata")
        return sorted(self.cluster.metadata.brokers)

    async def _by_broker(
        self, brokers: Iterable[int] | None, ask: Callable[[Connection], Awaitable[R]]
    ) -> Answers[int, R]:
        """Ask brokers by id (None: all live brokers)."""
        wanted = await self._live_brokers() if brokers is None else list(brokers)
        answers: Answers[int, R] = Answers()

        async def ask_broker(connection: Connection, items: list[int]) -> Answers[int, R]:
            return Answers([(items[0], await ask(connection))])

        # Only one attempt: a broker that is down is not worth waiting for.
        with trio.move_on_after(self.config.default_api_timeout_ms / 1000):
            await self._ask_all(({b: [b] for b in wanted}, {}), ask_broker, answers)
        return answers.of(wanted, self._unanswered)
