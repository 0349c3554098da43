"""A broker's registration, heartbeats and leave, against the controller's own decisions; hours by a
mock clock."""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, ParamSpec

import pytest
import trio
import trio.testing
from group.brokers import NoPeers
from trio_clock import TrioClock

from pk.core.broker.assembly import Environment, assemble
from pk.core.broker.background import Background
from pk.core.broker.broker import Broker
from pk.core.broker.controller.broker_lifecycle import BrokerLifecycle, RegistrationFailed
from pk.core.broker.controller.controller_client import Client
from pk.core.broker.offload import inline
from pk.core.broker.state import BrokerState
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.log_dirs import LogDirs
from pk.core.log.memory_disk import MemoryDisk
from pk.core.meta.brokers import fence_broker, heartbeat, register_broker
from pk.core.meta.events import ClusterCreated, Endpoint, PartitionCreated, TopicCreated
from pk.core.meta.image import BrokerImage, MetadataImage
from pk.core.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from pk.core.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

INTERVAL_S = 2.0
P = ParamSpec("P")


def mocked(function: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a clock that jumps to the next deadline."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            await function(*args, **kwargs)

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

    return run


class Cluster:
    """A controller as a broker sees it through its client. It decides on an image, and publishes
    new images when told."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.image = MetadataImage().apply([ClusterCreated("c")])
        self.broker: Broker
        self.heartbeats: list[tuple[float, BrokerHeartbeatRequest]] = []
        self.registrations: list[BrokerRegistrationRequest] = []
        self.answers: list[Callable[[], Any]] = []
        """Answers to the next requests, in place of decisions."""
        self.shows = True
        """Whether the broker follows: each change reaches it at once."""
        self.others_know = True

    async def request(self, request: Any, *, timeout_ms: float) -> Any:
        await trio.lowlevel.checkpoint()
        if isinstance(request, BrokerHeartbeatRequest):
            self.heartbeats.append((trio.current_time(), request))
        elif isinstance(request, BrokerRegistrationRequest):
            self.registrations.append(request)
        else:
            await trio.sleep_forever()  # what others in the broker ask
        if self.answers:
            answer = self.answers.pop(0)()
            if answer is None:
                await trio.sleep(timeout_ms / 1000)
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nobody there")
            return answer
        if isinstance(request, BrokerHeartbeatRequest):
            decision = heartbeat(self.image, request, self.config, may_shut_down=self.others_know)
        else:
            decision = register_broker(self.image, request, self.config)
        self.image = self.image.apply(decision.records)
        if self.shows:
            self.broker.background.start_soon(self.show)
        return decision.reply

    async def forward(self, client: Client, request: Any, *, timeout_ms: float) -> Any:
        raise AssertionError("no test passes on a client's request")

    async def show(self) -> None:
        await self.broker.publish(self.image)

    async def lead(self, node_id: int) -> None:
        """Give the broker a partition to lead."""
        topic_id = bytes(15) + b"t"
        created = PartitionCreated(topic_id, 0, (node_id,), (node_id,), node_id)
        self.image = self.image.apply([TopicCreated("t", topic_id), created])
        await self.show()

    async def fence(self, node_id: int) -> None:
        epoch = self.image.brokers[node_id].broker_epoch
        self.image = self.image.apply(fence_broker(self.image, node_id, epoch, self.config).records)
        await self.show()

    @property
    def me(self) -> BrokerImage:
        return self.image.brokers[1]


class Case:
    def __init__(self, cluster: Cluster, lifecycle: BrokerLifecycle, dirs: LogDirs) -> None:
        self.cluster = cluster
        self.lifecycle = lifecycle
        self.broker = cluster.broker
        self.dirs = dirs
        self.nursery: trio.Nursery


@asynccontextmanager
async def case(**keys: str) -> AsyncIterator[Case]:
    given = {"node.id": "1", "log.dirs": "/a,/b", "broker.rack": "r1"}
    config = BrokerConfig.parse(given | {k.replace("__", "."): v for k, v in keys.items()})
    disk, ids = MemoryDisk(), itertools.count(1000)

    def new_id() -> bytes:
        return next(ids).to_bytes(16, "big")

    with inline():
        dirs = LogDirs.open(
            disk, ["/a", "/b"], cluster_id="c", node_id=1, holder="test", new_id=new_id
        )
        state, background, cluster = (
            BrokerState(config, node_id=1, cluster_id="c"),
            Background(),
            Cluster(config),
        )
        endpoints: Sequence[Endpoint] = [Endpoint("PLAINTEXT", "here", 9092, 0)]
        lifecycle = BrokerLifecycle(
            state,
            cluster,
            dirs,
            endpoints,
            background,
            new_id=new_id,
        )
        broker = cluster.broker = assemble(
            Environment(state, background, dirs, TrioClock(), Random(1), cluster, NoPeers()),
            image_listeners=[lifecycle],
        )
        one = Case(cluster, lifecycle, dirs)
        async with trio.open_nursery() as nursery:
            one.nursery = nursery
            broker.start(nursery)
            yield one
            nursery.cancel_scope.cancel()
        dirs.release()


async def registered(one: Case) -> None:
    await one.lifecycle.register()
    one.nursery.start_soon(one.lifecycle.run)


@mocked
async def test_a_late_answer_to_a_heartbeat_is_waited_for_beyond_the_next_ones_time() -> None:
    async with case() as one:
        await registered(one)
        await one.lifecycle.serve()
        await trio.sleep(60)
        heard, given_up = (
            len(one.cluster.heartbeats),
            one.broker.config.broker_session_timeout_ms / 2,
        )
        one.cluster.answers = [lambda: None]
        await trio.sleep(2 * INTERVAL_S)
        assert len(one.cluster.heartbeats) == heard + 1
        await trio.sleep(given_up / 1000)
        assert len(one.cluster.heartbeats) > heard + 1


@mocked
async def test_it_registers_is_unfenced_and_sends_heartbeats() -> None:
    async with case() as one:
        await registered(one)
        assert one.cluster.me.fenced
        await trio.sleep(10 * INTERVAL_S)
        assert one.cluster.me.fenced, "it does not serve yet"
        assert all(beat.want_fence for _, beat in one.cluster.heartbeats)
        began = trio.current_time()
        await one.lifecycle.serve()
        assert trio.current_time() - began < 0.2, "to serve is told at once"
        assert not one.broker.image.brokers[1].fenced
        del one.cluster.heartbeats[:]
        await trio.sleep(10 * INTERVAL_S)
        assert 9 <= len(one.cluster.heartbeats) <= 11
        (registration,) = one.cluster.registrations
        assert (registration.rack, len(registration.log_dirs)) == ("r1", 2)
        assert [(e.name, e.host, e.port) for e in registration.listeners] == [
            ("PLAINTEXT", "here", 9092)
        ]
        assert one.broker.broker_epoch == one.cluster.me.broker_epoch


@mocked
async def test_it_is_not_unfenced_before_it_has_its_own_registration() -> None:
    async with case() as one:
        one.cluster.shows = False
        await registered(one)
        with trio.move_on_after(60) as waited:
            await one.lifecycle.serve()
        assert waited.cancelled_caught
        assert one.cluster.me.fenced
        await one.cluster.show()
        one.cluster.shows = True
        await one.lifecycle.serve()


@mocked
async def test_who_is_fenced_and_lives_says_so_at_once() -> None:
    async with case() as one:
        await registered(one)
        await one.lifecycle.serve()
        await one.cluster.fence(1)
        assert one.broker.image.brokers[1].fenced
        with trio.fail_after(0.2):
            await one.lifecycle.serve()
        assert not one.cluster.me.fenced


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
@mocked
async def test_who_is_not_known_any_more_registers_once_as_a_new_incarnation(
    code: ErrorCode,
) -> None:
    async with case() as one:
        await registered(one)
        await one.lifecycle.serve()
        old = one.broker.broker_epoch
        one.cluster.answers.append(lambda: BrokerHeartbeatResponse(error_code=code))
        await trio.sleep(5 * INTERVAL_S)
        first, second = one.cluster.registrations
        assert first.incarnation_id != second.incarnation_id
        assert second.previous_broker_epoch == old, "this process never ended: it lost nothing"
        assert one.broker.broker_epoch > old
        assert not one.broker.image.brokers[1].fenced


@mocked
async def test_a_registration_waits_for_the_last_incarnations_session() -> None:
    async with case() as one:
        duplicate = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        one.cluster.answers += [lambda: duplicate] * 20
        await one.lifecycle.register()
        ids = {registration.incarnation_id for registration in one.cluster.registrations}
        assert (len(one.cluster.registrations), len(ids)) == (21, 1)


@mocked
async def test_a_registration_gives_up_in_time() -> None:
    async with case(initial__broker__registration__timeout__ms="3000") as one:
        one.cluster.answers += [lambda: None] * 100
        began = trio.current_time()
        with pytest.raises(RegistrationFailed, match="3000 ms"):
            await one.lifecycle.register()
        assert trio.current_time() - began == pytest.approx(3, abs=0.01)


@mocked
async def test_while_it_is_refused_it_can_tell_why() -> None:
    async with case(initial__broker__registration__timeout__ms="3000") as one:
        duplicate = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        one.cluster.answers += [lambda: duplicate] * 100
        with pytest.raises(RegistrationFailed, match="another running process is broker 1"):
            await one.lifecycle.register()
        assert one.lifecycle.last_error.startswith("DUPLICATE_BROKER_REGISTRATION, another running")
        one.cluster.answers.clear()
        await one.lifecycle.register()
        assert not one.lifecycle.last_error


@mocked
async def test_a_registration_that_is_refused_for_good_is_not_repeated() -> None:
    async with case() as one:
        one.broker.state.cluster_id = "another"
        with pytest.raises(RegistrationFailed, match="INCONSISTENT_CLUSTER_ID"):
            await one.lifecycle.register()
        assert len(one.cluster.registrations) == 1


@mocked
async def test_it_is_let_go_when_the_others_know() -> None:
    async with case() as one:
        await registered(one)
        await one.lifecycle.serve()
        await one.cluster.lead(1)
        one.cluster.others_know = False
        async with trio.open_nursery() as nursery:
            went = trio.Event()

            async def leave() -> None:
                await one.lifecycle.controlled_shutdown(30)
                went.set()

            nursery.start_soon(leave)
            await trio.sleep(1)
            assert one.cluster.me.in_controlled_shutdown
            assert not went.is_set()
            one.cluster.others_know = True
            with trio.fail_after(0.1):
                await went.wait()
        assert one.cluster.me.fenced


@mocked
async def test_without_an_answer_it_takes_the_controller_for_gone() -> None:
    async with case() as one:
        await registered(one)
        await one.lifecycle.serve()
        one.cluster.answers += [lambda: None] * 100
        began = trio.current_time()
        await one.lifecycle.controlled_shutdown(5)
        assert trio.current_time() - began == pytest.approx(1.5, abs=0.01)


@mocked
async def test_a_controller_that_answers_and_does_not_let_it_go_is_left_in_time() -> None:
    async with case() as one:
        await registered(one)
        await one.lifecycle.serve()
        await one.cluster.lead(1)
        one.cluster.others_know = False
        began = trio.current_time()
        await one.lifecycle.controlled_shutdown(5)
        assert trio.current_time() - began == pytest.approx(5, abs=0.01)


@mocked
async def test_it_just_goes_where_controlled_shutdown_is_off() -> None:
    async with case(controlled__shutdown__enable="false") as one:
        await registered(one)
        await one.lifecycle.serve()
        await one.lifecycle.controlled_shutdown(5)
        assert not one.cluster.me.in_controlled_shutdown


@mocked
async def test_what_is_said_anew_does_not_wait_for_a_request_that_nobody_answers() -> None:
    async with case() as one:
        await registered(one)
        await trio.testing.wait_all_tasks_blocked()
        one.cluster.answers.append(lambda: None)
        await trio.sleep(INTERVAL_S + 0.1)
        with trio.fail_after(0.2):
            await one.lifecycle.serve()


@mocked
async def test_a_failed_directory_is_reported_at_once() -> None:
    async with case() as one:
        await registered(one)
        await one.lifecycle.serve()
        failed = one.dirs.directories[1]
        failed.failed = True
        one.lifecycle.directory_failed()
        await trio.testing.wait_all_tasks_blocked()
        assert one.cluster.heartbeats[-1][1].offline_log_dirs == [failed.directory_id]
        assert failed.directory_id not in one.cluster.me.log_dirs
        await trio.sleep(120)
        assert not one.broker.background.failed.is_set()


@mocked
async def test_a_failed_directory_that_cannot_be_reported_ends_the_broker() -> None:
    async with case(log__dir__failure__timeout__ms="10000") as one:
        await registered(one)
        await one.lifecycle.serve()
        one.cluster.answers += [lambda: None] * 100
        one.dirs.directories[0].failed = True
        one.lifecycle.directory_failed()
        began = trio.current_time()
        await one.broker.background.failed.wait()
        assert 10 <= trio.current_time() - began < 10 + 2 * INTERVAL_S
        assert "10 s" in one.broker.background.failure
