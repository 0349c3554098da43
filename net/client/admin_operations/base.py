"""The common parts of the admin operations: routing, retries, and one answer per item.

An operation on many items is *routed* (to find which broker answers for which item). All those
brokers get the request at the same time. The items that failed with a passing error are routed
again, until all are settled or `default.api.timeout.ms` has passed. Each item has its own result or
error; a failed item does not affect the others.
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
    ClientError,
    ConnectFailed,
    ControllerDown,
    ControllerSilent,
    Disconnected,
    NoBrokers,
    NotUp,
    RequestTimedOut,
    Straggler,
    Unanswered,
    UnknownPartition,
    is_passing,
)
from pk.net.client.results import CoordinatorType, Node
from pk.net.client.together import Together

Failure = Exception
"""The error that an item may have instead of a result: `KafkaError`, `ClientError` or
`ProtocolError`."""

FAILURES: Final = (KafkaError, ClientError, ProtocolError)
_LOOK_S: Final = 2.0
"""A broker that has not answered by then may be gone; the others are asked whether it is, at this
interval."""

_DOWN_S: Final = 0.5
"""How often, while waiting for the controller, to check whether it is known to be down."""

_ASIDE_S: Final = 1.0
"""How long a broker has to show that it is not the one that hangs."""

_LEADERLESS_S: Final = 1.0
"""A partition without a leader for this long is considered leaderless: with a limit on stragglers,
nothing waits for it anymore, not even a change, which does wait for stragglers."""

_UNKNOWN_ATTEMPTS: Final = 3
"""A newly created topic may be unknown to the broker asked; a topic that is unknown three times
does not exist."""

_ASK_COORDINATOR_AGAIN: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

# Final answers that are returned at once, although a later answer may differ.
_SETTLED: Final = (
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)

K = TypeVar("K")
R = TypeVar("R")
Routed = tuple[dict[int, list[K]], dict[K, Failure]]
"""Broker id → items it answers for, and the failures of items that no broker answers for."""


def failure(code: int, message: str | None = None) -> KafkaError | None:
    """The error of `code`, None for NONE."""
    return KafkaError(code, message) if code else None


def check(response: Any, what: str) -> None:
    """Raise a response's own error code. `what` describes the request, for a response without a
    message."""
    if response.error_code:
        raise KafkaError(response.error_code, getattr(response, "error_message", None) or what)


def _lacks_leader(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.LEADER_NOT_AVAILABLE


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions grouped by topic, in the order given."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


async def _before(
    ask: Callable[[], Awaitable[R]], over: Callable[[], Awaitable[None]]
) -> tuple[R, ...]:
    """The result of `ask`; empty if `over` returns first. Raises what `ask` raises."""
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
        await over()
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
        self.together = Together(cluster)
        self.controller_down: Callable[[], ControllerDown | None] | None = None
        """Returns why the controller cannot answer, if this machine knows; called while waiting for
        the controller."""

        self.awaiting_controller = 0
        """How many tasks wait for an answer that only the controller can give."""

        self.thorough = False
        """Whether to ask a straggler again, and the broker that may have replaced it, until
        `default.api.timeout.ms`."""

    async def _any(self, request: Any, *, low: int = 0, high: int = 32767) -> Any:
        """Ask any broker; for requests that change nothing."""

        async def ask(connection: Connection) -> Any:
            return await connection.request(request, low=low, high=high)

        return await self._retry(lambda: self.cluster.ask_any(ask), type(request).__name__)

    async def _controller(self, ask: Callable[[Connection], Awaitable[R]], purpose: str = "") -> R:
        """Ask the controller; find it again if it has moved."""

        async def attempt() -> R:
            return await self._while_there(await self.cluster.controller(), ask, purpose)

        def moved(error: Exception) -> None:
            self.cluster.metadata.controller_id = -1

        try:
            return await self._unless_down(lambda: self._retry(attempt, "the controller", moved))
        except Unanswered as e:
            raise await self._who_hangs(e) from None

    async def _unless_down(self, ask: Callable[[], Awaitable[R]]) -> R:
        """The result of an `ask` that needs the controller. Raises what `ask` raises, and
        ControllerDown as soon as the controller is known to be down."""
        self.awaiting_controller += 1
        try:
            return await self._told_if_down(ask)
        finally:
            self.awaiting_controller -= 1

    async def _told_if_down(self, ask: Callable[[], Awaitable[R]]) -> R:
        down = self.controller_down
        if down is None:
            return await ask()
        if (found := down()) is not None:
            raise found

        async def known() -> None:
            nonlocal found
            while found is None:
                await trio.sleep(_DOWN_S)
                found = down()

        for answer in await _before(ask, known):
            return answer
        assert found is not None
        raise ControllerDown(found.why, found.step, asked=True)

    async def _who_hangs(self, error: Unanswered) -> RequestTimedOut:
        """The error to raise for an unanswered change that the controller makes. The controller is
        to blame if the brokers that forward to it do answer other requests."""
        for node in error.nodes:
            if node.node_id < 0 or not await self._answers(node.node_id):
                return error
        return ControllerSilent(error.nodes, error.waited_ms, changes=True)

    async def _answers(self, node_id: int) -> bool:
        """Whether a broker answers a request that needs no other node."""
        from pk.core.wire.messages.metadata import MetadataRequest

        with trio.move_on_after(_ASIDE_S), suppress(*FAILURES):
            request = MetadataRequest(topics=[])
            await self.cluster.request(request, node_id=node_id, purpose=CONTROLLERS)
            return True
        return False

    async def _in_time(self, ask: Callable[[], Awaitable[R]]) -> R:
        """The result of an `ask` that only the controller can answer and that changes nothing.

        Raises what `ask` raises, and ControllerSilent if it has taken `pk.straggler.timeout.ms`
        while brokers do answer other requests.
        """
        limit_ms = self.config.pk_straggler_timeout_ms
        if limit_ms < 0 or self.thorough:
            return await self._unless_down(ask)
        silent: list[Node] = []

        async def late() -> None:
            nonlocal silent
            await trio.sleep(limit_ms / 1000)
            silent = self.cluster.silent(limit_ms / 2000)
            try:
                await self.cluster.refresh(())
            except FAILURES:
                await trio.sleep_forever()

        for answer in await _before(lambda: self._unless_down(ask), late):
            return answer
        raise ControllerSilent(silent, limit_ms)

    async def _while_there(
        self, node_id: int, ask: Callable[[Connection], Awaitable[R]], purpose: str
    ) -> R:
        """The result of asking a broker, as long as the cluster lists it: a broker that hangs with
        its connections open is fenced after a while, and another takes over its leadership.

        Raises what `ask` raises, and Disconnected if the broker is gone.
        """

        async def gone() -> None:
            while True:
                await trio.sleep(_LOOK_S)
                with suppress(*FAILURES):
                    await self.cluster.refresh(())
                    if node_id not in self.cluster.metadata.brokers:
                        return

        async def ask_it() -> R:
            return await ask(await self.cluster.connection(node_id, purpose))

        for answer in await _before(ask_it, gone):
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
        """Route and ask; repeat for the items that failed with a passing error. Raises if no broker
        is reachable.

        With `changes`, wait for slow brokers even if the others answered long ago.
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
                remaining = [i for i, e in errors.items() if self._worth_retrying(e, attempts)]
                if not waits and trio.current_time() - started >= _LEADERLESS_S:
                    remaining = [i for i in remaining if not _lacks_leader(errors[i])]
                if on_failure is not None:
                    for item, error in errors.items():
                        if isinstance(error, Straggler) or self._worth_retrying(error, attempts):
                            on_failure(item, error)
        return answers.of(order, lambda item: self._unanswered(asked.get(item)))

    def _unanswered(self, node_id: int | None) -> RequestTimedOut:
        """The error of a timeout. It names this broker or, if None, those that were asked which
        broker it is."""
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
        """Ask every node at once. Each adds its answers to `answers` as they arrive, so after a
        timeout the answers received so far are there. Unless `patient`, a node much slower than
        another fails with `Straggler`."""
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
        then_s = float("inf") if patient or limit_ms < 0 else limit_ms / 1000
        for node_id in await self.together.ask(routed[0], ask_one, then_s=then_s):
            node = self.cluster.node(node_id)
            late = Straggler(node_id, node.address if node else "?", limit_ms)
            answers.update(Answers((item, late) for item in routed[0][node_id]))

    def _worth_retrying(self, error: Exception, attempts: int) -> bool:
        if isinstance(error, KafkaError):
            if error.code in _SETTLED or isinstance(error, NotUp):
                return False
            if error.code in _NOT_THERE:
                return attempts < _UNKNOWN_ATTEMPTS
            return is_passing(error)
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
        """Ask each partition's leader. Refreshes the metadata once, and again after failures."""
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
        """Ask each group's (or transactional id's) coordinator."""

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
            if lost or (isinstance(error, KafkaError) and error.code in _ASK_COORDINATOR_AGAIN):
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
        """Ask brokers by id (None: all that live)."""
        wanted = await self._live_brokers() if brokers is None else list(brokers)
        answers: Answers[int, R] = Answers()

        async def ask_broker(connection: Connection, items: list[int]) -> Answers[int, R]:
            return Answers([(items[0], await ask(connection))])

        # A single round: the answer of a broker that is down is not worth waiting for.
        with trio.move_on_after(self.config.default_api_timeout_ms / 1000):
            await self._ask_all(({b: [b] for b in wanted}, {}), ask_broker, answers)
        return answers.of(wanted, self._unanswered)
