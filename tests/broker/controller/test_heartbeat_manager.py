"""Which brokers are fenced, and when: silence, broken connections, refusals; new controllers, and
controllers that slept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from pk.core.broker.controller.active_controller import CommitListener, Decide
from pk.core.broker.controller.heartbeat_manager import HeartbeatManager
from pk.core.broker.controller.quorum_observers import QuorumObservers
from pk.core.broker.peers import PeerLost
from pk.core.broker.state import BrokerState
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import BrokerChanged, BrokerRegistered, Endpoint, Event
from pk.core.meta.image import MetadataImage
from pk.core.values import NO_NODE

SESSION_S = 9.0
OWN = 9


class Hosts:
    """The results of connecting, by port: True, a refusal, or silence."""

    def __init__(self) -> None:
        self.state: dict[int, str] = {}
        self.tried: list[int] = []

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> Any:
        self.tried.append(port)
        await trio.sleep(0.001)
        state = self.state.get(port, "answers")
        if state == "silent":
            await trio.sleep(timeout_ms / 1000)
        if state != "answers":
            raise PeerLost(state, refused=state == "refuses")
        return SimpleNamespace(close=lambda: None)


class ActiveController:
    """A controller that commits every decision at once."""

    def __init__(self, events: list[Event]) -> None:
        self.controller_id = OWN
        self.predecessor = NO_NODE
        self.observers = QuorumObservers()
        self.commit_listeners: list[CommitListener] = []
        self.image = MetadataImage().apply(events)
        self.decisions: list[list[Event]] = []
        self.full = False
        """Whether the metadata log has no room."""

    async def submit(self, decide: Decide) -> Any:
        await trio.lowlevel.checkpoint()
        if self.full:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
        decision = decide(self.image)
        assert isinstance(decision, Decision)
        self.decisions.append(decision.records)
        self.commit(*decision.records)
        return decision.reply

    def commit(self, *events: Event) -> None:
        before, self.image = self.image, self.image.apply(events)
        for listener in self.commit_listeners:
            listener(before, self.image)

    @property
    def fenced(self) -> list[int]:
        return [n for n, broker in sorted(self.image.brokers.items()) if broker.fenced]


def registered(node: int, epoch: int, fenced: bool = False) -> BrokerRegistered:
    endpoints = (Endpoint("PLAINTEXT", "h", node, 0),)
    return BrokerRegistered(node, epoch, bytes([epoch]) * 16, endpoints, fenced=fenced)


class Watched:
    """Brokers 1 to 3 under a controller that has just begun."""

    def __init__(self, *extra: Event) -> None:
        self.controller = ActiveController([*(registered(n, n) for n in (1, 2, 3)), *extra])
        self.hosts = Hosts()
        config = {"node.id": "9", "log.dirs": "/d", "listeners": "PLAINTEXT://h:1"}
        self.state = BrokerState(BrokerConfig.parse(config), node_id=9, cluster_id="c")
        self.state.image = self.controller.image
        self.manager = HeartbeatManager(self.controller, self.state, self.hosts)

    def heartbeats(self, *nodes: int) -> None:
        """Heartbeats over the connections 10 + node."""
        for node in nodes:
            self.manager.record_heartbeat(
                node, self.controller.image.brokers[node].broker_epoch, 10 + node
            )

    def breaks(self, node: int) -> None:
        self.manager.disconnected(10 + node)


@asynccontextmanager
async def watched(*extra: Event) -> AsyncIterator[Watched]:
    one = Watched(*extra)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.manager.run)
        await trio.testing.wait_all_tasks_blocked()
        yield one
        nursery.cancel_scope.cancel()


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_session_ends_after_its_time_and_all_at_once() -> None:
    async def main() -> None:
        async with watched() as one:
            one.heartbeats(1, 2, 3)
            await trio.sleep(5)
            one.heartbeats(2)
            await trio.sleep(3.9)
            assert one.controller.fenced == []
            await trio.sleep(0.2)
            assert one.controller.fenced == [1, 3]
            assert [len(d) for d in one.controller.decisions] == [2], "in one decision"
            await trio.sleep(5)
            assert one.controller.fenced == [1, 2, 3]
            one.heartbeats(1)
            assert one.manager.is_alive(1), "it may be unfenced now"

    run(main)


def test_who_could_not_be_fenced_is_fenced_when_there_is_room_again() -> None:
    async def main() -> None:
        async with watched() as one:
            one.heartbeats(1, 2, 3)
            one.controller.full = True
            one.hosts.state = {1: "refuses"}
            one.breaks(1)
            await trio.sleep(5)
            one.heartbeats(2)
            await trio.sleep(5)
            assert one.controller.fenced == [], "1 is gone and 3 silent; that could not be noted"
            one.controller.full = False
            await trio.sleep(1.1)
            assert one.controller.fenced == [1, 3]
            one.heartbeats(2)
            await trio.sleep(SESSION_S - 1)
            assert one.controller.fenced == [1, 3]

    run(main)


def test_a_broken_connection_and_a_refusal_fence_at_once() -> None:
    async def main() -> None:
        async with watched() as one:
            one.heartbeats(1, 2, 3)
            await trio.sleep(1)
            one.hosts.state = {1: "refuses", 3: "refuses"}
            for node in (1, 2):
                one.breaks(node)
            await trio.sleep(0.05)
            assert one.controller.fenced == [1], "2 answers, and no broker tried 3"
            await trio.sleep(2)
            one.hosts.state[2] = "refuses"
            await trio.sleep(0.6)
            assert one.controller.fenced == [1, 2], "it answered, and died before it was heard of"

    run(main)


def test_silence_is_no_refusal() -> None:
    async def main() -> None:
        async with watched() as one:
            one.heartbeats(1, 2, 3)
            await trio.sleep(1)
            one.hosts.state[1] = "silent"
            one.breaks(1)
            await trio.sleep(7.9)
            assert one.controller.fenced == []
            one.heartbeats(2, 3)
            await trio.sleep(0.2)
            assert one.controller.fenced == [1]
            one.hosts.tried.clear()
            await trio.sleep(5)
            assert one.hosts.tried == [], "fenced brokers are not tried again"

    run(main)


def test_who_is_heard_of_again_is_left_alone() -> None:
    async def main() -> None:
        async with watched() as one:
            one.heartbeats(1, 2, 3)
            one.hosts.state[1] = "resets"
            one.breaks(1)
            await trio.sleep(0.1)
            assert not one.manager.is_alive(1), "a new incarnation may register"
            one.heartbeats(1)
            assert one.manager.is_alive(1)
            one.hosts.state[1] = "refuses"
            await trio.sleep(1.5)
            assert one.controller.fenced == []
            one.breaks(2)
            one.controller.commit(registered(2, 50))
            one.hosts.state[2] = "refuses"
            await trio.sleep(1)
            assert one.controller.fenced == [], "that was another incarnation's connection"

    run(main)


def test_a_new_controller_fences_no_broker_blindly_and_tries_everybody() -> None:
    async def main() -> None:
        one = Watched(registered(4, 4, fenced=True), registered(OWN, 5))
        one.hosts.state = {1: "refuses", 2: "silent"}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.manager.run)
            await trio.sleep(0.1)
            assert one.controller.fenced == [1, 4]
            assert set(one.hosts.tried) == {1, 2, 3}, (
                "neither itself nor brokers that are fenced already"
            )
            await trio.sleep(8.8)
            assert one.controller.fenced == [1, 4]
            one.heartbeats(3)
            await trio.sleep(0.2)
            assert one.controller.fenced == [1, 2, 4], "a whole session, no more"
            nursery.cancel_scope.cancel()

    run(main)


def test_a_predecessor_that_does_not_answer_gets_no_second_session() -> None:
    async def main() -> None:
        one = Watched()
        one.controller.predecessor = 2
        one.hosts.state = {2: "silent", 3: "silent"}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.manager.run)
            await trio.sleep(1.1)
            assert one.controller.fenced == [2], (
                "its silence cost it the leadership already; 3 is only slow"
            )
            nursery.cancel_scope.cancel()

    run(main)


def test_a_predecessor_that_answers_is_like_any_other() -> None:
    async def main() -> None:
        one = Watched()
        one.controller.predecessor = 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.manager.run)
            await trio.sleep(0.1)
            one.hosts.state = {2: "silent"}
            await trio.sleep(8)
            assert one.controller.fenced == [], "only its connection to the store was lost"
            one.heartbeats(1, 2, 3)
            await trio.sleep(8)
            one.heartbeats(1, 3)
            await trio.sleep(1.1)
            assert one.controller.fenced == [2]
            nursery.cancel_scope.cancel()

    run(main)


def test_a_controller_that_slept_fences_no_broker() -> None:
    async def main() -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        async with watched() as one:
            one.heartbeats(1, 2, 3)
            clock.jump(60)
            await trio.sleep(1)
            assert one.controller.fenced == []
            one.heartbeats(1)
            await trio.sleep(8.9)
            assert one.controller.fenced == [2, 3], "those who were not heard of since"

    run(main)


def test_who_shuts_down_waits_until_the_others_know() -> None:
    async def main() -> None:
        async with watched() as one:
            controller, manager = one.controller, one.manager
            one.heartbeats(1, 2, 3)
            controller.commit(BrokerChanged(1, 1, in_controlled_shutdown=True))
            end = controller.image.offset
            assert not manager.may_shut_down(1)
            controller.observers.fetched(2, bytes(16), end, end, 0)
            assert not manager.may_shut_down(1)
            controller.observers.fetched(3, bytes(16), end - 1, end, 0)
            assert not manager.may_shut_down(1)
            controller.commit(BrokerChanged(3, 3, fenced=True))
            assert manager.may_shut_down(1), "who is fenced leads nothing and need not know"
            controller.commit(BrokerChanged(2, 2, in_controlled_shutdown=True))
            controller.commit(BrokerChanged(3, 3, fenced=False))
            assert not manager.may_shut_down(2)
            await trio.sleep(1)
            assert manager.may_shut_down(2), "not for ever"

    run(main)


def test_the_next_term_starts_again() -> None:
    async def main() -> None:
        one = Watched()
        with trio.move_on_after(5):
            await one.manager.run()
        one.heartbeats(1)
        one.hosts.state[2] = "refuses"
        one.breaks(2)
        await trio.sleep(20)
        assert one.controller.fenced == [], "a controller that does not lead watches no broker"
        with trio.move_on_after(1):
            await one.manager.run()
        assert one.controller.fenced == [2]

    run(main)
