"""The coordinator runtime under the simplest machine that needs all of it: a deal is first written
to the log, then announced to everybody, then marked as done. Its coordinator is killed in each
state and between any two steps, and loses its unsynced data.

A deal is announced only when it is safe. An acknowledged deal is announced to everybody, however
many coordinators die, and is done in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio
from broker.cluster import Cluster, running_cluster
from broker.coordinator.deals import EVERYBODY, TOPIC, Deals, Tell
from group.brokers import simulated

from pk.core.broker.broker import Broker
from pk.core.broker.coordinator.coordinator_runtime import CoordinatorRuntime, CoordinatorSettings
from pk.core.broker.coordinator.coordinator_shard import CoordinatorShard, State
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Effect


class World:
    """Everybody, and what they were told; it outlives every coordinator."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.reported: list[tuple[str, str]] = []
        self.limit = 1 << 30
        """The number of announcements before announcing hangs."""
        self.reports = True
        """Whether coordinators learn of completed announcements."""
        self.odd = 0
        """The number of announcements that fail with an unforeseen error."""
        self.pause: Callable[[], float] = lambda: 0.01
        self.runtimes: dict[int, Runtime] = {}

    def attach(self, node: int) -> None:
        """Have a broker coordinate."""
        broker = self.cluster.broker(node)
        runtime = self.runtimes[node] = Runtime(self, broker)
        broker.image_listeners.append(runtime)

    def leader(self) -> int:
        found = self.cluster.image.partition(TOPIC, 0)
        assert found is not None
        return found.leader

    def coordinator(self) -> CoordinatorShard[Deals]:
        return self.runtimes[self.leader()].at(0)

    async def serves(self) -> Deals:
        """Wait for a coordinator that serves."""
        await self.cluster.until(lambda: self.coordinator().is_active)
        return self.coordinator().machine

    async def make(self, name: str) -> None:
        """Ask for a deal until it is acknowledged."""
        while True:
            try:
                answer = self.coordinator().submit_nowait(lambda m, _, now_ms: m.make(name, now_ms))
                assert (answer if isinstance(answer, str) else await answer) == name
            except KafkaError:
                await trio.sleep(0.05)
            else:
                return

    async def move(self, to: int, *, kill: bool = True, power: bool = True) -> None:
        """The coordinator is killed, or only loses its leadership; another broker leads."""
        leader = self.leader()
        isr = tuple(n for n in self.cluster.isr(TOPIC) if n != leader or not kill)
        assert to in isr
        if kill:
            await self.cluster.crash(leader, power=power)
        await self.cluster.change(TOPIC, leader=to, isr=isr)


class Runtime(CoordinatorRuntime[Deals]):
    """The coordinators of one broker."""

    def __init__(self, world: World, broker: Broker) -> None:
        super().__init__(
            TOPIC, Deals, broker.state, broker.data.replicas, broker.background.start_soon
        )
        self.world = world

    def settings(self, config: BrokerConfig) -> CoordinatorSettings:
        return CoordinatorSettings(commit_timeout_ms=1000, load_bytes=1 << 20)

    def carry_out(self, coordinator: CoordinatorShard[Any], effect: Effect) -> None:
        assert isinstance(effect, Tell)
        if self.world.odd:
            self.world.odd -= 1
            raise ArithmeticError("odd")
        self._start_soon(self._tell, coordinator, effect.name)

    async def _tell(self, coordinator: CoordinatorShard[Deals], name: str) -> None:
        world = self.world
        for whom in EVERYBODY:
            await trio.sleep(world.pause())
            if len(world.reported) >= world.limit:
                await trio.sleep_forever()
            world.reported.append((name, whom))
            if world.reports:
                coordinator.when_active(lambda m, now_ms, whom=whom: m.reported(name, whom, now_ms))


async def begin(cluster: Cluster) -> World:
    world = World(cluster)
    for node in (1, 2, 3):
        world.attach(node)
    await cluster.create(1, 2, 3, topic=TOPIC, configs={"min.insync.replicas": "2"})
    await world.serves()
    return world


@pytest.mark.parametrize(
    ("limit", "reports"),
    [(0, True), (2, True), (3, False), (3, True)],
    ids=["prepared", "half told", "told and not done", "done"],
)
@simulated
async def test_the_coordinator_is_killed_in_each_state(limit: int, reports: bool) -> None:
    async with running_cluster() as cluster:
        world = await begin(cluster)
        world.limit, world.reports = limit, reports
        await world.make("a")
        await cluster.until(lambda: len(world.reported) >= limit)
        done = limit == 3 and reports
        await cluster.until(lambda: world.coordinator().machine.deals["a"] is done)
        await cluster.settled(1, 2, 3, topic=TOPIC)
        await world.move(to=2)
        world.limit, world.reports = 1 << 30, True
        machine = await world.serves()
        await cluster.until(lambda: machine.deals == {"a": True})
        assert {whom for _, whom in world.reported} == set(EVERYBODY)
        assert len(world.reported) == (
            3 if done else limit + 3
        )  # all of it again, if it was not done


@simulated
async def test_nobody_is_told_of_what_is_lost_with_its_coordinator() -> None:
    async with running_cluster() as cluster:
        world = await begin(cluster)
        cluster.part(1)
        with pytest.raises(KafkaError) as refused:
            await world.coordinator().submit(lambda m, _, now_ms: m.make("a", now_ms))
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # in time
        assert world.coordinator().machine.deals == {"a": False}
        await trio.sleep(30)
        assert world.reported == []
        await world.move(to=2)
        cluster.heal()
        machine = await world.serves()
        await trio.sleep(30)
        assert (machine.deals, world.reported) == ({}, [])


@simulated
async def test_what_becomes_safe_late_is_told_late() -> None:
    """While too few replicas are in sync nothing is promised and nothing happens; then both do."""
    async with running_cluster() as cluster:
        world = await begin(cluster)
        cluster.part(2, 3)
        with pytest.raises(KafkaError):
            await world.coordinator().submit(lambda m, _, now_ms: m.make("a", now_ms))
        await cluster.change(TOPIC, isr=(1,))
        await trio.sleep(5)
        assert world.reported == []
        cluster.heal()
        await cluster.until(lambda: len(world.reported) == 3)


@simulated
async def test_an_unforeseen_error_when_something_becomes_safe_ends_no_broker() -> None:
    """The coordinator finds the outstanding announcement in the log again."""
    async with running_cluster() as cluster:
        world = await begin(cluster)
        world.odd = 1
        await world.make("a")
        await cluster.until(lambda: len(world.reported) == 3)
        assert world.odd == 0


@simulated
async def test_who_only_loses_its_leadership_does_nothing_more() -> None:
    async with running_cluster() as cluster:
        world = await begin(cluster)
        world.limit = 1
        await world.make("a")
        await cluster.until(lambda: len(world.reported) == 1)
        old = world.coordinator()
        await world.move(to=3, kill=False)
        assert old.state is State.CLOSED
        world.limit = 1 << 30
        machine = await world.serves()
        await cluster.until(lambda: machine.deals == {"a": True})
        assert old.machine.deals == {}


@pytest.mark.parametrize("seed", range(12))
@simulated
async def test_random_deaths(seed: int) -> None:
    random = Random(seed)
    async with running_cluster() as cluster:
        world = await begin(cluster)
        world.pause = lambda: random.uniform(0, 0.2)
        acknowledged: list[str] = []

        async def deal() -> None:
            for n in range(40):
                await trio.sleep(random.uniform(0, 0.2))
                await world.make(f"d{n}")
                acknowledged.append(f"d{n}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(deal)
            for _ in range(4):
                await trio.sleep(random.uniform(0.1, 1.5))
                leader = world.leader()
                others = [n for n in cluster.isr(TOPIC) if n != leader]
                await world.move(random.choice(others), kill=(kill := random.random() < 0.7))
                if kill:
                    await trio.sleep(random.uniform(0, 0.5))
                    await cluster.start(leader)
                    world.attach(leader)
                await cluster.until(lambda: len(cluster.isr(TOPIC)) == 3)
        machine = await world.serves()
        await cluster.until(lambda: all(machine.deals.values()))
        assert set(acknowledged) <= machine.deals.keys()
        reported = set(world.reported)
        assert {(name, whom) for name in machine.deals for whom in EVERYBODY} == reported


@simulated
async def test_a_computation_comes_back_as_a_decision() -> None:
    async with running_cluster() as cluster:
        world = await begin(cluster)
        await world.make("a")
        machine = await world.serves()
        assert await world.coordinator().submit(lambda m, _, now_ms: m.count(now_ms)) is True
        await cluster.until(lambda: "sum-1" in machine.deals)


@simulated
async def test_a_machine_is_handed_every_image() -> None:
    async with running_cluster() as cluster:
        world = await begin(cluster)
        machine = await world.serves()
        before = len(machine.images)
        assert before >= 1
        await cluster.create(2, topic="another")
        assert len(machine.images) == before + 1


@simulated
async def test_a_machine_is_never_handed_an_older_image_after_a_newer() -> None:
    """While it loads, images go by."""
    async with running_cluster() as cluster:
        world = await begin(cluster)
        await world.make("a")
        machine = await world.serves()
        coordinator = world.coordinator()
        coordinator.state = State.LOADING
        for name in ("b", "c"):
            await cluster.create(2, topic=name)
        before = len(machine.images)
        await coordinator.load()
        handed = machine.images[before:]
        assert len(handed) == 3, "the one in force, and again with what each change was"
        assert set(handed) == {cluster.image.offset}

        for name in ("d", "e"):
            await cluster.create(2, topic=name)
        assert len(machine.images) == before + 5
        assert machine.images == sorted(machine.images)
