"""The effects of sessions on the metadata store on ZooKeeper: they end, servers stop and return,
controllers die halfway.

The store's other promises are tested in tests/meta/test_store.py, with the other stores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
from store_events import Losses, allocated, large, until
from zookeeper_server import START_TIMEOUT_S, ZooKeeperServer, skip_without_zookeeper
from zookeeper_stores import SHORT_MS, ZooKeeperStores

from pk.core.broker.offload import inline
from pk.core.meta.events import (
    Endpoint,
    TopicCreated,
)
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, Leader, StoreFailed
from pk.net import zookeeper as module
from pk.net.zookeeper import ZooKeeperStore

pytestmark = pytest.mark.peer
TEST_S = 4 * START_TIMEOUT_S
"""A server is started three times in some test."""


@pytest.fixture
def stores(zookeeper: ZooKeeperServer) -> ZooKeeperStores:
    return ZooKeeperStores(zookeeper)


@pytest.fixture
def own_server() -> Iterator[ZooKeeperServer]:
    """A server that the test may stop."""
    skip_without_zookeeper()
    with ZooKeeperServer() as server:
        yield server


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        with inline(), trio.fail_after(TEST_S):
            await main()

    trio.run(inside)


def test_an_expired_session_is_reported_and_the_next_in_the_queue_is_elected(
    stores: ZooKeeperStores,
) -> None:
    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        losses = Losses(first)
        epoch = await first.campaign(1)
        await first.append(epoch, 0, [allocated(1)])
        async with trio.open_nursery() as nursery:
            elected: list[int] = []

            async def campaign() -> None:
                elected.append(await second.campaign(2))

            nursery.start_soon(campaign)
            await until(lambda: _has(stores, "candidates", 2))
            assert not elected and not losses.reported
            await stores.expire(first)
            assert await losses.wait() == epoch
            with pytest.raises(Fenced):
                await first.append(epoch, 1, [allocated(2)])
        assert elected == [epoch + 1]
        await second.append(epoch + 1, 1, [allocated(3)])
        # The first one may stand again; it waits, since the second is the controller.
        with trio.move_on_after(0.3):
            raise AssertionError(await first.campaign(1))
        await second.close()
        assert await first.campaign(1) == epoch + 2
        assert (await first.load()).producer_id_next == 3
        await first.close()

    run(main)


async def _has(stores: ZooKeeperStores, name: str, count: int) -> bool:
    return len(await stores.children(name)) == count


def test_a_controller_whose_port_is_closed_is_deposed_though_its_session_lasts(
    stores: ZooKeeperStores,
) -> None:
    async def main() -> None:
        first, second, third = (stores.make(number) for number in (1, 2, 3))
        losses = Losses(first)
        epoch = await first.campaign(1)
        await first.append(epoch, 0, [allocated(1)])
        there = Endpoint("CONTROLLER", "127.0.0.1", 9001, 0)
        async with trio.open_nursery() as nursery:
            elected: list[int] = []

            async def campaign(store: ZooKeeperStore) -> None:
                await store.campaign(store.controller_id)
                elected.append(store.controller_id)

            for number, store in enumerate((second, third), 2):
                nursery.start_soon(campaign, store)
                await until(lambda n=number: _has(stores, "candidates", n))
            await until(lambda: _watched(stores, 3))
            second.depose(1, there._replace(port=9002))
            third.depose(2, there)
            with trio.move_on_after(0.3):
                await losses.wait()
            assert not elected, "it listens elsewhere, and another one may be gone"
            third.depose(1, there)
            second.depose(1, there)
            assert await losses.wait() == epoch
            await until(lambda: _won(elected, 1))
            assert elected == [2], "the next in the queue, whichever noticed"
            with pytest.raises(Fenced):
                await first.append(epoch, 1, [allocated(2)])
            await second.append(epoch + 1, 1, [allocated(3)])
            await second.close()
        assert elected == [2, 3]
        assert (await third.load()).producer_id_next == 3
        for store in (first, third):
            await store.close()

    run(main)


def test_candidates_wait_for_one_another_and_not_all_for_the_controller(
    stores: ZooKeeperStores,
) -> None:
    async def main() -> None:
        made = [stores.make(number) for number in range(1, 6)]
        won: list[int] = []
        async with trio.open_nursery() as nursery:

            async def campaign(store: ZooKeeperStore) -> None:
                await store.campaign(store.controller_id)
                assert await store.leader() == Leader(store.controller_id, len(won) + 1)
                won.append(store.controller_id)  # last: it is closed then

            for number, store in enumerate(made, 1):
                nursery.start_soon(campaign, store)
                await until(lambda n=number: _has(stores, "candidates", n))
            await until(lambda: _watched(stores, 5))
            assert won == [1]
            for number, store in enumerate(made, 1):
                await until(lambda n=number: _won(won, n))
                await store.close()
        assert won == [1, 2, 3, 4, 5]
        assert await stores.children("candidates") == []

    run(main)


def test_who_cannot_take_over_lets_the_next_one_try(stores: ZooKeeperStores) -> None:
    """Elected, and unable to append a word: it does not stay in everybody's way."""

    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        epochs = [await first.campaign(1)]
        async with trio.open_nursery() as nursery:

            async def campaign(store: ZooKeeperStore) -> None:
                epochs.append(await store.campaign(store.controller_id))

            nursery.start_soon(campaign, second)
            await until(lambda: _has(stores, "candidates", 2))
            nursery.start_soon(campaign, first)
            await until(lambda: _won(epochs, 2))
            assert await first.leader() == Leader(2, 2)
            await second.append(2, 0, [allocated(1)])
            await second.close()
        assert epochs == [1, 2, 3]
        assert await first.leader() == Leader(1, 3)
        await first.append(3, 1, [allocated(2)])
        # A controller that did append, and only lost its connection, is elected again.
        leader = await first.campaign(1)
        assert leader == 4 and len(await stores.children("candidates")) == 1
        await first.close()

    run(main)


async def _won(won: list[int], count: int) -> bool:
    return len(won) == count


async def _watched(stores: ZooKeeperStores, count: int) -> bool:
    """Whether this many nodes below the path are watched, each by one session."""
    reported = await trio.to_thread.run_sync(stores.server.ask, "wchp")
    watchers: dict[str, int] = {}
    path = ""
    for line in reported.splitlines():
        if line.startswith("/"):
            path = line
        elif line.strip() and path.startswith(f"{stores.path}/"):
            watchers[path] = watchers.get(path, 0) + 1
    # Four wait for the one before them; the controller watches the epoch.
    return len(watchers) == count and set(watchers.values()) == {1}


def test_a_server_that_restarts_loses_and_doubles_nothing(own_server: ZooKeeperServer) -> None:
    """A controller appends continuously. Each acknowledged event is in the log once; an event
    without an answer may be there."""
    stores = ZooKeeperStores(own_server, session_ms=SHORT_MS)

    async def main() -> None:
        store, done = stores.make(1), trio.Event()
        acknowledged: list[int] = []
        broken = 0

        async def append() -> None:
            nonlocal broken
            number = 0
            while not done.is_set():
                try:
                    epoch = await store.campaign(1)
                except StoreFailed:
                    continue  # it takes its time to start
                try:
                    end = (await store.load()).offset
                    while not done.is_set():
                        number += 1
                        event = TopicCreated(f"t{number}", number.to_bytes(16, "big"))
                        await store.append(epoch, end, [event])
                        end += 1
                        acknowledged.append(number)
                except (Fenced, StoreFailed):
                    broken += 1

        async def more(count: int) -> None:
            goal = len(acknowledged) + count

            async def reached() -> bool:
                return len(acknowledged) >= goal

            await until(reached)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            for end in (own_server.kill, own_server.stop, own_server.kill):
                await more(50)
                await trio.to_thread.run_sync(end)
                await trio.to_thread.run_sync(own_server.start)
            await more(50)
            done.set()
        await store.close()
        other = stores.make(2)
        await other.campaign(2)
        topics = list((await other.load()).topics)
        await other.close()
        found = [int(name[1:]) for name in topics]
        assert found == sorted(set(found)) and set(acknowledged) <= set(found)
        assert broken and len(found) - len(acknowledged) <= broken

    run(main)


def test_a_leadership_is_given_up_before_the_session_can_be_over(
    own_server: ZooKeeperServer,
) -> None:
    """A server that falls silent: the session lives on in it, but nothing that hung on it is
    believed."""
    session_ms = 12_000
    stores = ZooKeeperStores(own_server, session_ms=session_ms)

    async def main() -> None:
        store = stores.make(1)
        losses = Losses(store)
        epoch = await store.campaign(1)
        own_server.pause()
        with trio.fail_after(session_ms / 1000):
            assert await losses.wait() == epoch
        with pytest.raises(Fenced):
            await store.append(epoch, 0, [allocated(1)])
        own_server.resume()
        again = await store.campaign(1)
        assert again > epoch
        await store.append(again, 0, [allocated(2)])
        await store.close()

    run(main)


def test_an_append_whose_answer_does_not_come_is_of_unknown_fate(
    own_server: ZooKeeperServer,
) -> None:
    stores = ZooKeeperStores(own_server)

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [allocated(1)])
        own_server.pause()
        with pytest.raises(StoreFailed):
            await store.append(epoch, 1, [allocated(2)])
        with pytest.raises(Fenced):
            await store.append(epoch, 1, [allocated(3)])
        own_server.resume()
        again = await store.campaign(1)
        image = await store.load()
        assert image.offset in (1, 2) and image.producer_id_next == image.offset
        await store.append(again, image.offset, [allocated(9)])
        await store.close()

    run(main)


def test_an_append_that_is_cancelled_gives_the_leadership_up(own_server: ZooKeeperServer) -> None:
    stores = ZooKeeperStores(own_server)

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        own_server.pause()
        with trio.move_on_after(0.05) as scope:
            await store.append(epoch, 0, [allocated(1)])
        own_server.resume()
        assert scope.cancelled_caught
        with pytest.raises(Fenced):
            await store.append(epoch, 0, [allocated(2)])
        again = await store.campaign(1)
        image = await store.load()
        assert image.offset in (0, 1)
        await store.append(again, image.offset, [allocated(3)])
        assert (await store.load()).producer_id_next == 3
        await store.close()

    run(main)


@pytest.fixture
def small_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of 10 kB, so that little is much."""
    monkeypatch.setattr(module, "NODE_BYTES_MAX", 10_000)


class Dies(Exception):
    """Stands for the end of the process."""


def dying(store: ZooKeeperStore, writes: int) -> None:
    """End the store's process after this many more writes."""
    multi, left = store._multi, [writes]

    async def counted(*args: Any) -> Any:
        if left[0] == 0:
            raise Dies
        left[0] -= 1
        return await multi(*args)

    store._multi = counted  # type: ignore[method-assign]


@pytest.mark.usefixtures("small_nodes")
@pytest.mark.parametrize("writes", range(5))
def test_a_snapshot_that_was_not_finished_never_counts(
    stores: ZooKeeperStores, writes: int
) -> None:
    """A folder, three pieces and more, the pointer."""

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        image = MetadataImage()
        for turn in range(2):
            events = large(turn)
            await store.append(epoch, image.offset, events)
            image = image.apply(events)
            if turn == 0:
                await store.save_snapshot(epoch, image)
        dying(store, writes)
        with pytest.raises(Dies):
            await store.save_snapshot(epoch, image)
        await store.close()
        following = stores.make(2)
        epoch = await following.campaign(2)
        assert await following.load() == image
        assert len(await stores.children("snapshots")) == (2 if writes else 1)
        await following.save_snapshot(epoch, image)
        await following.trim(epoch)
        assert await following.load() == image
        assert len(await stores.children("snapshots")) == 1
        assert await stores.children("parts") == []
        assert len(await stores.children("log")) == 1  # the one in which the log continues
        await following.append(epoch, image.offset, [allocated(1)])
        assert await following.load() == image.apply([allocated(1)])
        await following.close()

    run(main)


@pytest.mark.usefixtures("small_nodes")
@pytest.mark.parametrize("writes", range(4))
def test_a_large_append_that_was_not_finished_did_not_happen(
    stores: ZooKeeperStores, writes: int
) -> None:
    """A folder, two pieces, the node that makes them count."""

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [allocated(1)])
        dying(store, writes)
        with pytest.raises(Dies):
            await store.append(epoch, 1, large(1))
        await store.close()
        following = stores.make(2)
        epoch = await following.campaign(2)
        image = await following.load()
        assert image == MetadataImage().apply([allocated(1)])
        await following.append(epoch, 1, large(2))
        image = image.apply(large(2))
        assert await following.load() == image
        await following.save_snapshot(epoch, image)
        await following.trim(epoch)
        assert await stores.children("parts") == []
        assert await following.load() == image
        await following.close()

    run(main)


def test_no_node_and_no_list_comes_near_what_zookeeper_takes(
    stores: ZooKeeperStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NODE_COST_BYTES", 1)

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        end = 0
        for count in [1] * 1_500 + [20_000, 1, 20_000, 1]:
            events = large(end, count) if count > 1 else [allocated(end)]
            await store.append(epoch, end, events)
            end += len(events)
        await store.save_snapshot(epoch, await store.load())
        nodes = await stores.nodes()
        assert max(nodes.values(), key=lambda n: n.size).size < 512 << 10
        assert max(node.children for node in nodes.values()) <= 1_000
        await store.trim(epoch)
        nodes = await stores.nodes()
        assert len(nodes) < 25 and await store.load()
        await store.close()

    run(main)


def test_brokers_find_the_controller_and_hear_of_the_next(stores: ZooKeeperStores) -> None:
    async def main() -> None:
        first, second, third = (stores.make(number) for number in (1, 2, 3))
        locators = [store.locator for store in (first, second, third)]
        for locator in locators:
            assert await locator.find() is None
        await first.campaign(1)

        async def found(controller_id: int) -> None:
            expected = controller_id, Endpoint("CONTROLLER", "127.0.0.1", 9000 + controller_id, 0)

            async def all_say() -> bool:
                return all([await one.find() == expected for one in locators[1:]])

            await until(all_say)

        await found(1)
        asked = stores.server.ask("srvr")
        for _ in range(100):
            await locators[1].find()
        assert _received(stores.server.ask("srvr")) - _received(asked) < 20, "find sends no request"
        await first.close()
        await second.campaign(2)
        await found(2)
        await stores.expire(third)  # its watch goes with its session
        await second.close()
        locators.pop(1)
        await third.campaign(3)
        await found(3)
        await third.close()

    run(main)


def test_who_stops_looking_for_the_controller_does_not_stop_others(
    own_server: ZooKeeperServer,
) -> None:
    stores = ZooKeeperStores(own_server)

    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        locator = second.locator
        assert await second.leader() is None
        own_server.pause()
        with trio.move_on_after(0.1) as scope:
            await locator.find()
        own_server.resume()
        assert scope.cancelled_caught
        await first.campaign(1)

        async def found() -> bool:
            return await locator.find() is not None

        await until(found)
        await first.close()
        await second.close()

    run(main)


def test_while_zookeeper_is_out_of_reach_the_last_controller_is_named_at_once(
    own_server: ZooKeeperServer,
) -> None:
    """A broker that loses ZooKeeper but not the controller continues, because its heartbeats do not
    wait."""
    stores = ZooKeeperStores(own_server)

    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        locator = second.locator
        await first.campaign(1)
        known = await locator.find()
        assert known is not None
        own_server.kill()

        async def away() -> bool:
            return not second.session.connected

        await until(away)
        with trio.fail_after(45):  # each of them would wait for a second and more
            for _ in range(50):
                assert await locator.find() == known
                await trio.sleep(0.01)
        await first.close()
        await second.close()

    run(main)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_whose_thread_died_is_replaced(own_server: ZooKeeperServer) -> None:
    stores = ZooKeeperStores(own_server)

    async def main() -> None:
        store = stores.make(1, connect_timeout_ms=10_000)
        losses = Losses(store)
        epoch = await store.campaign(1)
        client: Any = store.session._client

        def fails(*_: object) -> None:
            raise RuntimeError("a fault of the client's")

        client._connection._connect_attempt = fails
        await trio.to_thread.run_sync(own_server.kill)
        await trio.to_thread.run_sync(own_server.start)
        assert await losses.wait() == epoch
        with pytest.raises(StoreFailed):
            await store.campaign(1)
        assert await store.campaign(1) > epoch
        await store.close()

    run(main)


def _received(reported: str) -> int:
    return next(
        int(line.split()[1]) for line in reported.splitlines() if line.startswith("Received")
    )


def test_a_server_that_comes_late_is_waited_for(own_server: ZooKeeperServer) -> None:
    own_server.stop()
    stores = ZooKeeperStores(own_server)

    async def main() -> None:
        # The time-out is the time a server may take to start.
        store = stores.make(1, connect_timeout_ms=round(START_TIMEOUT_S * 1000))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.campaign, 1)
            await trio.sleep(0.1)
            await trio.to_thread.run_sync(own_server.start)
        assert await store.leader() == Leader(1, 1)
        await store.close()

    run(main)


def test_a_damaged_node_is_a_failure_and_not_a_crash(stores: ZooKeeperStores) -> None:
    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [allocated(1)])
        await stores.write(f"log/{0:019d}/{0:020d}", b"odd")
        with pytest.raises(StoreFailed, match="damaged"):
            await store.load()
        await stores.delete(f"log/{0:019d}/{0:020d}")
        await store.append(epoch, 1, [allocated(2)])
        with pytest.raises(StoreFailed, match="events 0 to 1 are missing"):
            await store.load()
        await store.close()

    run(main)


def test_who_takes_the_epoch_ends_the_leadership_of_the_one_before(stores: ZooKeeperStores) -> None:
    """An operator deletes the leader's node, or sets the epoch: that is enough."""

    async def main() -> None:
        store = stores.make(1)
        losses = Losses(store)
        epoch = await store.campaign(1)
        await stores.write("epoch", b"")
        assert await losses.wait() == epoch
        with pytest.raises(Fenced):
            await store.append(epoch, 0, [allocated(1)])
        epoch = await store.campaign(1)
        await stores.delete("leader")
        with pytest.raises(Fenced):
            await store.append(epoch, 0, [allocated(1)])
        await store.close()

    run(main)
