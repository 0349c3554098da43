"""The ensemble that plays ZooKeeper: sessions end, the leadership moves, and a process that lost it
writes nothing more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from sim.chronicle import Chronicle, Violation
from sim.history import History
from sim.network import Network
from sim.processes import Process, deterministic, owned_by
from sim.stores import HOST, SESSION_S, Ensemble, EnsembleStore, ObservedStore
from sim.virtual_time import VirtualClock

from pk.core.meta.controller import take_over
from pk.core.meta.events import ClusterCreated, FeatureChanged
from pk.core.meta.store import Fenced, StoreFailed


class Here:
    """An ensemble and two processes that want the leadership."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.network = Network(Random(1), Chronicle())
        self.ensemble = Ensemble(self.network)
        self.nursery = nursery
        nursery.start_soon(self.network.run)
        nursery.start_soon(self.ensemble.run)
        self.one, self.two = Process("one", "one"), Process("two", "two")
        self.first, self.second = self.store(self.one), self.store(self.two)

    def store(self, process: Process) -> EnsembleStore:
        store = EnsembleStore(self.ensemble, process)
        with owned_by(process):
            self.nursery.start_soon(store.watch)
        return store


def simulated(main: Callable[[Here], Awaitable[None]]) -> None:
    async def begin() -> None:
        async with trio.open_nursery() as nursery:
            await main(Here(nursery))
            nursery.cancel_scope.cancel()

    with deterministic(1):
        trio.run(begin, clock=VirtualClock())


def test_the_leadership_moves_when_its_holder_stands_still_and_the_old_one_is_fenced() -> None:
    async def main(here: Here) -> None:
        lost: list[int] = []
        here.first.lost.append(lambda epoch, why: lost.append(epoch))
        assert await here.first.campaign(1) == 1
        await here.first.append(1, 0, [ClusterCreated("c")])
        here.one.freeze()
        started = trio.current_time()
        assert await here.second.campaign(2) == 2
        assert SESSION_S <= trio.current_time() - started < SESSION_S + 1
        assert not lost
        here.one.thaw()
        await trio.sleep(0.1)
        assert lost == [1], "it knows before it appends"
        with pytest.raises(Fenced):
            await here.first.append(1, 1, [FeatureChanged("f", 1)])
        image = await here.second.load()
        assert image.offset == 1 and image.cluster_id == "c"

    simulated(main)


def test_what_a_process_asked_arrives_though_it_is_killed() -> None:
    async def main(here: Here) -> None:
        await here.first.campaign(1)

        async def append() -> None:
            await here.first.append(1, 0, [ClusterCreated("c")])

        async with trio.open_nursery() as nursery:
            with owned_by(here.one):
                nursery.start_soon(append)
            await trio.testing.wait_all_tasks_blocked()
            here.one.kill()
            nursery.cancel_scope.cancel()
        await here.second.campaign(2)
        assert (await here.second.load()).cluster_id == "c"

    simulated(main)


def test_who_is_cut_off_is_told_that_the_store_failed() -> None:
    async def main(here: Here) -> None:
        await here.first.campaign(1)
        here.network.block(HOST, "one")  # requests arrive, answers do not
        with pytest.raises(StoreFailed):
            await here.first.append(1, 0, [ClusterCreated("c")])
        await here.second.campaign(2)
        assert (await here.second.load()).offset == 1

    simulated(main)


def test_the_history_sees_events_that_are_lost_or_served_too_soon() -> None:
    async def main(here: Here) -> None:
        history = History(Chronicle(), {})
        store: Any = ObservedStore(here.first, history, here.one)
        epoch = await store.campaign(1)
        image = await store.load()
        events = take_over(image, "c", 1, epoch).records
        await store.append(epoch, 0, events)
        ahead = image.apply([*events, FeatureChanged("f", 1)])
        with pytest.raises(Violation, match="durable"):
            history.metadata.published(here.two, ahead)
        history.metadata.published(here.one, image.apply(events))
        assert here.ensemble.log.records is not None
        here.ensemble.log.records.pop()
        with pytest.raises(Violation, match="were appended"):
            await store.load()

    simulated(main)
